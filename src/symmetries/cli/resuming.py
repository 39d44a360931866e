"""What an interrupted command keeps: beside its output, until it is done."""

import json
import os
import shutil
from pathlib import Path
from types import TracebackType

from symmetries.cli.errors import StoppedError

MOST_THREADS = 4096  # a larger number in a file is a mistake
RANKS = ("LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "RANK", "SLURM_PROCID")


def is_helper(processes: int) -> bool:
    """Whether this is one of several processes of a run, and not the one that writes.

    Launchers (Fabric's own, torchrun, srun) say so in the environment. A run of one process is
    nobody's helper, though srun may have started several such runs side by side.

    Args:
        processes: of the run.
    """
    return processes > 1 and any(os.environ.get(name, "0") != "0" for name in RANKS)


class Checkpoints:
    """The folder ``OUT.resume`` beside the output, for the time of a run.

    It goes when the output stands. It stays when the command is interrupted, killed or fails after
    something was written into it, and ``--resume`` goes on from there; only a training whose
    numbers became infinite leaves nothing. Enter it while the output is owned (``output.owned``).

    Args:
        out: the output folder or file.
        resume: whether to go on from what is there.
        command: that is to be run again.
    """

    def __init__(self, out: Path, resume: bool, command: str) -> None:
        self.folder = out.with_name(f"{out.name}.resume")
        self.resume = resume
        self.command = command
        self._before: dict[Path, int] = {}
        self.found = resume and bool(self._written())

    def _written(self) -> dict[Path, int]:
        """What there is to go on from, and when it was written."""
        return {path: path.stat().st_mtime_ns for path in self.folder.rglob("*.json")}

    def threads(self) -> int | None:
        """How many threads what is there was computed with; None where it does not say."""
        for path in sorted(self.folder.rglob("*.json")):
            try:
                number = json.loads(path.read_bytes())["meta"]["threads"]
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                continue
            if type(number) is int and 1 <= number <= MOST_THREADS:
                return number
        return None

    def __enter__(self) -> "Checkpoints":
        self._before = self._written()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            if type(error).__name__ == "FolderInUseError":  # what is there is another run's
                return
            written = self._written()
            if isinstance(error, KeyboardInterrupt) and written:
                raise StoppedError(f"interrupted; go on with: {self.command} --resume") from error
            untouched = bool(written) and written == self._before
            if self.found or untouched:  # the mistake may be in this command
                return
            if written and type(error).__name__ != "NonFiniteError":
                error.add_note(f"what was computed is kept; go on with: {self.command} --resume")
                return
        shutil.rmtree(self.folder, ignore_errors=True)
