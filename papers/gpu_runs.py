"""Runs of the papers on one GPU within a time limit: queues of command lines, in lanes.

    python papers/gpu_runs.py rows --data DATA --out OUT --limit 510
    python papers/gpu_runs.py rows --data DATA --out OUT --limit 200 --tiny   # a trial on a CPU

Each lane runs its jobs one after the other, lanes run side by side. A job begins only if what it is
expected to take fits into what is left of the limit; at the limit jobs are ended, and what they had
written stays. OUT gets three files, written anew every few seconds: ``runs.json`` (every job with
its command, seconds and exit code, and the JSON files that it wrote), ``arrays.zip`` (its .npz
files) and ``log.txt``. Jobs that ``--done runs.json`` of an earlier call has finished are left out.
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
LAST = 120.0  # seconds before the limit in which a job begins no part of a paper
MARGIN = 8.0  # seconds that a job with a limit of its own gets less than what is left
EVERY, POLL = 10.0, 0.5  # seconds between two writings, two looks
LARGEST = 15 * 2**20  # bytes of arrays.zip
PROBE = "import torch; print(float(torch.ones(4, device='cuda').sum()))"


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
        self.lanes = [list(lane) for lane in QUEUES[arguments.queue]]
        self.running: dict[int, Started] = {}
        self.ended: list[Started] = []
        self.out.mkdir(parents=True, exist_ok=True)
        self.log: IO[bytes] = (self.out / "log.txt").open("ab", buffering=0)
        self.done = set()
        if arguments.done:
            content = json.loads(arguments.done.read_text())
            self.done = {j["name"] + j["command"] for j in content["jobs"] if j["rc"] == 0}
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

    def share_gpu(self) -> None:
        """Let kernels of several processes run at once (MPS), if this GPU can."""
        if "CUDA_MPS_PIPE_DIRECTORY" in self.environment:
            self.say("MPS was started by others: it is theirs")
            return
        if not shutil.which("nvidia-cuda-mps-control"):
            self.say("no MPS here: processes take turns")
            return
        pipes = {f"CUDA_MPS_{n}_DIRECTORY": str(self.work / n) for n in ("PIPE", "LOG")}
        for folder in pipes.values():
            Path(folder).mkdir()
        shared = self.environment | pipes
        try:
            subprocess.run(["nvidia-cuda-mps-control", "-d"], env=shared, check=True, timeout=20)
            words = [sys.executable, "-c", PROBE]
            subprocess.run(words, env=shared, check=True, timeout=60, capture_output=True)
        except (OSError, subprocess.SubprocessError) as error:
            self.say(f"MPS does not work here ({error}): processes take turns")
            self.stop_sharing(shared)
        else:
            self.say("MPS: processes share the GPU")
            self.environment = shared

    def stop_sharing(self, environment: dict[str, str]) -> None:
        """End the MPS server, if there is one."""
        if Path(environment.get("CUDA_MPS_PIPE_DIRECTORY", "")).parent != self.work:
            return
        try:
            subprocess.run(
                ["nvidia-cuda-mps-control"], input=b"quit\n", env=environment, check=False,
                timeout=20, capture_output=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            self.say("the MPS server did not end")

    def run(self) -> None:
        """Run everything that fits."""
        if self.arguments.mps:
            self.share_gpu()
        written = self.passed
        try:
            while self.running or any(self.lanes):
                for lane in range(len(self.lanes)):
                    self.step(lane)
                if self.passed - written > EVERY:
                    self.write()
                    written = self.passed
                time.sleep(POLL)
        finally:
            for started in self.running.values():
                self.end(started)
            self.write()
            self.stop_sharing(self.environment)
            shutil.rmtree(self.work, ignore_errors=True)

    def step(self, lane: int) -> None:
        """See whether the job of a lane has ended or must; begin the next."""
        if lane in self.running:
            started = self.running[lane]
            if started.process.poll() is None and self.passed < self.arguments.limit:
                return
            self.end(started)
            self.ended.append(self.running.pop(lane))
            return
        while self.lanes[lane] and lane not in self.running:
            job = self.lanes[lane].pop(0)
            left = self.arguments.limit - self.passed
            if job.seconds > left and not self.arguments.tiny:
                self.say(f"no time for {job.name}: {job.seconds:.0f} s, {left:.0f} left")
            else:
                self.start(lane, job, left)

    def start(self, lane: int, job: Job, left: float) -> None:
        """Begin a job, unless an earlier call has done it."""
        folder = self.work / job.name
        words = f"{job.words} {job.tiny if self.arguments.tiny else ''}".strip()
        if job.name + words in self.done:
            self.say(f"{job.name} is done")
            return
        if job.start and not folder.exists():
            folder.mkdir(parents=True)
            shutil.copy(HERE / job.start, folder / "results.json")
        folder.mkdir(parents=True, exist_ok=True)
        filled = words.format(
            data=self.arguments.data, here=HERE, out=folder, left=max(1.0, left - MARGIN),
            minutes=max(0.5, (left - LAST) / 60),
        )  # fmt: skip
        command = [sys.executable, str(HERE / job.script), *shlex.split(filled)]
        process = subprocess.Popen(
            command, env=self.environment, stdout=self.log, stderr=self.log, start_new_session=True
        )
        self.running[lane] = Started(job, process, folder, words, self.passed)
        self.say(f"lane {lane}: {job.name} begins: {job.script} {words}")

    def end(self, started: Started) -> None:
        """End a job that still runs, and note how it ended."""
        stopped = started.process.poll() is None
        if stopped:
            os.killpg(started.process.pid, signal.SIGTERM)
            try:
                started.process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(started.process.pid, signal.SIGKILL)
                started.process.wait()
        seconds = self.passed - started.began
        started.entry |= {"rc": started.process.returncode, "stopped": stopped, "seconds": seconds}
        how = "stopped at the limit" if stopped else f"ended ({started.process.returncode})"
        self.say(f"{started.job.name} {how} after {seconds:.1f} s")

    def write(self) -> None:
        """Everything that jobs have written so far."""
        jobs, arrays = [], {}
        every = [*self.ended, *self.running.values()]
        latest = {started.folder: i for i, started in enumerate(every)}
        for i, started in enumerate(every):
            files = {}
            for path in sorted(started.folder.rglob("*")) if latest[started.folder] == i else ():
                name = path.relative_to(started.folder).as_posix()
                if path.suffix == ".json" and "checkpoint" not in name and "models" not in name:
                    files[name] = _loaded(path)
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
            "seconds": self.passed, "lanes": len(self.lanes), "jobs": jobs,
        }  # fmt: skip
        temporary = self.out / "runs.json.new"
        temporary.write_text(json.dumps(whole) + "\n")
        temporary.replace(self.out / "runs.json")
        total = 0
        temporary = self.out / "arrays.zip.new"
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as file:
            for name, path in arrays.items():
                total += path.stat().st_size
                if total < LARGEST:
                    file.write(path, name)
        temporary.replace(self.out / "arrays.zip")
        if total >= LARGEST:
            self.say(f"arrays.zip has not all arrays: {total} bytes")


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
    parser.add_argument("--done", type=Path, help="runs.json of an earlier call")
    parser.add_argument("--threads", type=int, default=2, help="of each job")
    parser.add_argument("--mps", action="store_true", help="let processes share the GPU")
    parser.add_argument("--tiny", action="store_true", help="a trial: few steps, few images")
    Queue(parser.parse_args()).run()


if __name__ == "__main__":
    main()
