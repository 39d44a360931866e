"""A server that starts processes by forking one in which the library is imported already.

A process of its own costs seconds of imports otherwise. Tests of the start itself (which modules,
which settings) use a process that is started in the usual way.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

MODULES = ("torch", "torch._dynamo", "lightning_fabric", "matplotlib.figure", "symmetries.cli.runs")
MODULES += ("symmetries.analysis.discovery", "symmetries.analysis.fits", "symmetries.report")
MODULES += ("symmetries.analysis.orbits", "symmetries.analysis.audits", "symmetries.sweeps")


def serve(channel):
    """Fork a process for every request; each request has a supervisor that reports the end."""
    for name in MODULES:
        __import__(name)
    signal.signal(signal.SIGCHLD, reap)  # so that its times hold those of what it started
    while True:
        text, (*descriptors,), _, _ = socket.recv_fds(channel, 1 << 20, 3)
        if not text:
            return
        if os.fork() == 0:
            channel.close()
            supervise(json.loads(text), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def reap(*_):
    """Wait for supervisors that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def supervise(request, stdout, stderr, answers):
    """Fork the process, and write its number and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process = os.fork()
    if process == 0:
        os.close(answers)
        behave(request, stdout, stderr)
    os.close(stdout)
    os.close(stderr)
    os.write(answers, f"{process}\n".encode())
    _, status = os.waitpid(process, 0)
    os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def behave(request, stdout, stderr):
    """Be ``python -c CODE ARGUMENTS`` from here on."""
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.close(stdout)
    os.close(stderr)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - as Python opens them
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["-c", *request["arguments"]]
    code = 1
    try:
        exec(request["code"], {"__name__": "__main__"})  # noqa: S102 - of the tests
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


class ForkServer:
    """The server's process, and requests to it."""

    def __init__(self):
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-W", "ignore", __file__, str(theirs.fileno())]
        names = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, env=names, pass_fds=[theirs.fileno()])
        theirs.close()

    def start(self, code, arguments, env, cwd, stdout=None):
        """Start a process; ``stdout`` is an open file or None for a pipe."""
        return ForkedProcess(self.channel, code, arguments, env, cwd, stdout)

    def close(self):
        """End the server; processes that it started go on."""
        self.channel.close()
        self.process.wait(timeout=60)


class ForkedProcess:
    """What ``subprocess.Popen`` would return, as far as the tests need it."""

    def __init__(self, channel, code, arguments, env, cwd, stdout):
        request = {"code": code, "arguments": arguments, "env": env, "cwd": str(cwd)}
        self.read, self.threads, ends = {}, {}, {}
        for name in ("stdout", "stderr"):
            if name == "stdout" and stdout is not None:
                ends[name] = os.dup(stdout.fileno())
                continue
            ours, ends[name] = os.pipe()
            self.threads[name] = threading.Thread(target=self._drain, args=(name, ours))
        self.answers, theirs = os.pipe()
        given = [ends["stdout"], ends["stderr"], theirs]
        socket.send_fds(channel, [json.dumps(request).encode()], given)
        for descriptor in given:
            os.close(descriptor)
        for thread in self.threads.values():
            thread.start()
        self.returncode = None
        self.pid = int(self._line(120))

    def _drain(self, name, descriptor):
        with open(descriptor, encoding="utf-8", errors="replace") as pipe:
            self.read[name] = pipe.read()

    def _line(self, timeout):
        """The next line of the supervisor, or None where none came in time."""
        if not select.select([self.answers], [], [], timeout)[0]:
            return None
        text = b""
        while not text.endswith(b"\n"):
            text += os.read(self.answers, 1)
        return text.decode()

    def poll(self):
        """The exit code, or None while the process runs."""
        return self._end(0)

    def wait(self, timeout=None):
        """Wait for the end: the exit code."""
        if self._end(timeout) is None:
            raise subprocess.TimeoutExpired("forked process", timeout)
        return self.returncode

    def _end(self, timeout):
        if self.returncode is None:
            line = self._line(timeout)
            self.returncode = None if line is None else int(line)
        return self.returncode

    def communicate(self, timeout=None):
        """Wait for the end: standard output and error output."""
        limit = None if timeout is None else time.monotonic() + timeout
        self.wait(timeout)
        for thread in self.threads.values():
            thread.join(None if limit is None else max(0, limit - time.monotonic()))
        return self.read.get("stdout"), self.read.get("stderr")

    def kill(self):
        """Kill the process where it runs still."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
