"""Commands in a folder of their own."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from symmetries.cli import app


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def spawn(tmp_path):
    """Start a command in a process of its own, in an empty folder."""
    started = []

    def start(*arguments, code="from symmetries.cli import app; app()", **more):
        command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
        names = {**os.environ, "OMP_NUM_THREADS": "1", **more.pop("env", {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        more = {"cwd": tmp_path, **pipes, **more}
        process = subprocess.Popen(command, env=names, **more)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
