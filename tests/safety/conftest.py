"""Commands in a folder of their own."""

import os
import subprocess
import sys

import pytest

COMMAND = "from symmetries.cli import app; app()"


@pytest.fixture
def started():
    """Processes of a test, which end with it."""
    processes = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def spawn(fork_server, started, tmp_path):
    """Start a command in a process of its own, in an empty folder; imports are done already."""

    def start(*arguments, code=COMMAND, stdout=None):
        words, names = [str(word) for word in arguments], {**os.environ, "OMP_NUM_THREADS": "1"}
        started.append(fork_server.start(code, words, names, tmp_path, stdout))
        return started[-1]

    return start


@pytest.fixture
def spawn_fresh(started, tmp_path):
    """Start a command in a new interpreter, in an empty folder."""

    def start(*arguments, code=COMMAND, env=None, cwd=tmp_path):
        command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
        names = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, env=names, cwd=cwd, **pipes))
        return started[-1]

    return start
