"""Runs of the papers on one GPU within a time limit: queues of command lines, in lanes.

    python papers/gpu_runs.py rows --data DATA --out OUT --limit 510
    python papers/gpu_runs.py rows --data DATA --out OUT --limit 200 --tiny   # a trial on a CPU

Lanes run side by side, and each takes the next job of the queue. A job begins only if what it is
expected to take fits into what is left of the limit, judged by how long the others took; a quarter
of it is enough for jobs that are said to go on later. At the limit jobs are asked to stop, as by
Ctrl-C: a training ends after its step and writes a checkpoint. No job is killed, because a killed
process takes down all others that share the GPU. OUT gets ``runs.json`` (every job with its
command, seconds and exit code, and what it added to its JSON files), ``arrays.zip`` (its .npz
files) and ``log.txt``, written anew every few seconds, and in the end ``checkpoints.zip`` of the
jobs that did not finish, as far as there is room. A later call goes on from there with ``--from
OUT``.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).parent))
from gpu_queues import QUEUES, Job

HERE = Path(__file__).parent
LAST = 40.0  # seconds before the limit in which a job begins no part of a paper
MARGIN = 8.0  # seconds that a job with a limit of its own gets less than what is left
EVERY, POLL = 10.0, 0.5  # seconds between two writings, two looks
# A job that was asked to stop ends as any other: a process that a signal ends leaves the GPU's
# context to the driver, in the midst of what it was doing.
ENDING = """
import runpy, signal, sys
from pathlib import Path
sys.argv = sys.argv[1:]
sys.path[0] = str(Path(sys.argv[0]).parent)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except KeyboardInterrupt:
    print("stopped", flush=True)
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.synchronize()
    sys.exit(1)
finally:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending already
"""
LEAST = 0.25  # of a job that can go on later must fit
LARGEST = 15_000_000  # bytes of OUT; checkpoints come last


@dataclass
class Started:
    """A job that was begun."""

    job: Job
    process: subprocess.Popen[bytes]
    folder: Path
    command: str
    began: float
    entry: dict[str, Any] = field(default_factory=dict)


class Queue:
    """Begins jobs, waits for them, and writes what they wrote."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.begin = arguments, time.perf_counter()
        self.out: Path = arguments.out
        self.work = Path(tempfile.mkdtemp(prefix="papers-"))
        self.todo = list(QUEUES[arguments.queue])
        self.pace = 1.0  # how many times longer jobs take than expected
        self.running: dict[int, Started] = {}
        self.ended: list[Started] = []
        self.out.mkdir(parents=True, exist_ok=True)
        self.log: IO[bytes] = (self.out / "log.txt").open("ab", buffering=0)
        self.done = set()
        if arguments.before:
            content = json.loads((arguments.before / "runs.json").read_text())
            self.done = {j["name"] + j["command"] for j in content["jobs"] if j["rc"] == 0}
            if (arguments.before / "checkpoints.zip").exists():
                with zipfile.ZipFile(arguments.before / "checkpoints.zip") as file:
                    file.extractall(self.work)
        self.environment = dict(os.environ) | {
            "PYTHONPATH": os.pathsep.join(
                [str(HERE.parent / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": str(arguments.threads),
        }

    @property
    def passed(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self.begin

    def say(self, *words: object) -> None:
        """Print, and write to the log."""
        line = f"{self.passed:6.1f} s  {' '.join(map(str, words))}\n"
        self.log.write(line.encode())
        print(line, end="", flush=True)

    def run(self) -> None:
        """Run everything that fits."""
        written = self.passed
        try:
            while self.running or self.todo:
                for lane in range(self.arguments.lanes):
                    self.step(lane)
                if self.passed - written > EVERY:
                    self.write()
                    written = self.passed
                time.sleep(POLL)
        finally:
            for started in self.running.values():
                self.ask(started)
                started.process.wait()
                self.end(started)
            self.ended += self.running.values()
            self.running.clear()
            self.write()
            self.write_checkpoints()
            shutil.rmtree(self.work, ignore_errors=True)

    def step(self, lane: int) -> None:
        """See whether the job of a lane has ended or must; begin the next."""
        if lane in self.running:
            started = self.running[lane]
            if started.process.poll() is None:
                if self.passed > self.arguments.limit:
                    self.ask(started)
                return
            self.end(started)
            self.ended.append(self.running.pop(lane))
            return
        while self.todo and lane not in self.running:
            job = self.todo.pop(0)
            left, needed = self.arguments.limit - self.passed, job.seconds * self.pace
            needed *= LEAST if job.goes_on else 1.0
            if left <= 0 or (needed > left and not self.arguments.tiny):
                self.say(f"no time for {job.name}: {needed:.0f} s, {left:.0f} left")
            else:
                self.start(lane, job, left)

    def start(self, lane: int, job: Job, left: float) -> None:
        """Begin a job, unless an earlier call has done it."""
        folder = self.work / job.name
        words = f"{job.words} {job.tiny if self.arguments.tiny else ''}".strip()
        if job.name + words in self.done:
            self.say(f"{job.name} is done")
            return
        folder.mkdir(parents=True, exist_ok=True)
        if job.start and not (folder / "results.json").exists():
            shutil.copy(HERE / job.start, folder / "results.json")
        filled = words.format(
            data=self.arguments.data, here=HERE, out=folder, left=max(1.0, left - MARGIN),
            minutes=max(0.5, (left - LAST) / 60),
        )  # fmt: skip
        script = str(HERE / job.script)
        command = [sys.executable, "-c", ENDING, script, *shlex.split(filled)]
        process = subprocess.Popen(
            command, env=self.environment, stdout=self.log, stderr=self.log,
            start_new_session=True, preexec_fn=_listen,
        )  # fmt: skip
        self.running[lane] = Started(job, process, folder, words, self.passed)
        self.say(f"lane {lane}: {job.name} begins: {job.script} {words}")

    def ask(self, started: Started) -> None:
        """Ask a job once to stop, as by Ctrl-C; it ends by itself."""
        if not started.entry.setdefault("stopped", False) and started.process.poll() is None:
            started.process.send_signal(signal.SIGINT)
            started.entry["stopped"] = True
            self.say(f"{started.job.name} is asked to stop")

    def end(self, started: Started) -> None:
        """Note how a job ended."""
        seconds = self.passed - started.began
        stopped = started.entry.get("stopped", False)
        started.entry |= {"rc": started.process.returncode, "stopped": stopped, "seconds": seconds}
        if not (stopped or started.process.returncode) and started.job.seconds:
            self.pace = max(1.0, seconds / started.job.seconds)
        self.say(f"{started.job.name} ended ({started.process.returncode}) after {seconds:.1f} s")

    def write(self) -> None:
        """Everything that jobs have written so far."""
        jobs, arrays = [], {}
        for started in (*self.ended, *self.running.values()):
            files, start = {}, started.job.start
            for path in sorted(started.folder.rglob("*")):
                name = path.relative_to(started.folder).as_posix()
                if path.suffix == ".json" and "checkpoint" not in name and "models" not in name:
                    before = _loaded(HERE / start) if start and name == "results.json" else None
                    files[name] = news(_loaded(path), before)
                elif path.suffix == ".npz":
                    arrays[f"{started.folder.name}/{name}"] = path
            jobs.append(
                {
                    "name": started.job.name, "script": started.job.script,
                    "command": started.command, "began": started.began, "rc": None,
                    **started.entry, "files": files,
                }
            )  # fmt: skip
        whole = {
            "queue": self.arguments.queue, "commit": os.environ.get("SYMMETRIES_COMMIT"),
            "seconds": self.passed, "lanes": self.arguments.lanes, "jobs": jobs,
        }  # fmt: skip
        temporary = self.out / "runs.json.new"
        temporary.write_text(json.dumps(whole) + "\n")
        temporary.replace(self.out / "runs.json")
        self.pack("arrays", arrays)

    def write_checkpoints(self) -> None:
        """What jobs that did not finish need to go on."""
        unfinished = {s.folder for s in self.ended if s.entry["rc"]}
        files = [p for f in unfinished for p in sorted(f.glob("checkpoints/**/*")) if p.is_file()]
        self.pack("checkpoints", {p.relative_to(self.work).as_posix(): p for p in files})

    def pack(self, name: str, files: dict[str, Path]) -> None:
        """Write an archive of OUT: all files of a job, or none if there is no room for them."""
        target = self.out / f"{name}.zip"
        others = (p for p in self.out.iterdir() if p != target and p.suffix in (".json", ".zip"))
        room = LARGEST - sum(p.stat().st_size for p in others)
        jobs: dict[str, list[str]] = {}
        for inside in files:
            jobs.setdefault(inside.partition("/")[0], []).append(inside)
        temporary = self.out / f"{name}.zip.new"
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for job, own in jobs.items():
                size = sum(files[inside].stat().st_size for inside in own)
                if size > room:
                    self.say(f"{name}.zip has no room for {job}: {size} bytes")
                    continue
                room -= size
                for inside in own:
                    archive.write(files[inside], inside)
        temporary.replace(target)


def news(found: Any, before: Any) -> Any:  # noqa: ANN401 - JSON
    """What a file has that was not there before: new entries of its lists, of any depth.

    Example:
        >>> news({"rows": [1, 2], "made": "now"}, {"rows": [1]})
        {'rows': [2], 'made': 'now'}
    """
    if isinstance(found, dict) and isinstance(before, dict):
        return {name: news(value, before.get(name)) for name, value in found.items()}
    if isinstance(found, list) and isinstance(before, list):
        return [value for value in found if value not in before]
    return found


def _listen() -> None:
    """Let Ctrl-C reach a job, also where the shell that began the queue ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _loaded(path: Path) -> Any:  # noqa: ANN401 - JSON
    """The content of a file that may be half written."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def main() -> None:
    """Run a queue."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("queue", choices=sorted(QUEUES))
    parser.add_argument("--data", default="", help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=510.0, help="seconds for everything")
    parser.add_argument("--lanes", type=int, default=4, help="jobs at a time")
    parser.add_argument("--from", type=Path, dest="before", help="OUT of an earlier call")
    parser.add_argument("--threads", type=int, default=2, help="of each job")
    parser.add_argument("--tiny", action="store_true", help="a trial: few steps, few images")
    Queue(parser.parse_args()).run()


if __name__ == "__main__":
    main()
