"""Checkpoints of a command, kept beside its output until it is done."""

import os
import re
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from symmetries.cli.errors import OutputError, StoppedError

# Names of the files that runs keep.
KEPT = re.compile(
    r"\..+\.tmp|\.lock|metrics\.csv|search\.json|(checkpoint|model|part-\d+-\d+)(-[0-9a-f]+)?\.(json|safetensors)"
)
RANKS = ("LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "RANK", "SLURM_PROCID")


def is_helper(processes: int) -> bool:
    """Return whether this is a helper process of a run, which writes no output.

    Launchers (Fabric's own, torchrun, srun) say so in the environment. A run of one process is
    nobody's helper, though srun may have started several such runs side by side.

    Args:
        processes: of the run.
    """
    return processes > 1 and any(os.environ.get(name, "0") != "0" for name in RANKS)


class Checkpoints:
    """The folder ``OUT.resume`` beside the output, which exists while a run is not complete.

    It goes, in one step, when the output stands. It stays when the command is interrupted, killed
    or fails after something was written into it, and ``--resume`` goes on from there; only a
    training whose numbers became infinite leaves nothing. A folder of that name with files that no
    run keeps is refused before any work. Enter it while the output is owned (``output.owned``).

    Args:
        out: the output folder or file.
        resume: whether to go on from what is there.
        command: that is to be run again.
    """

    def __init__(self, out: Path, resume: bool, command: str) -> None:
        self.folder = out.with_name(f"{out.name}.resume")
        self.resume = resume
        self.command = command
        self._removed = self.folder.with_name(f".{self.folder.name}.symmetries-old")
        self._before: dict[Path, int] = {}
        self.found = resume and bool(self._written())

    def _written(self) -> dict[Path, int]:
        """Return what a run can resume from, and when it was written."""
        found = {}
        with suppress(FileNotFoundError):  # another run may be removing it
            for path in self.folder.rglob("*.json"):
                found[path] = path.stat().st_mtime_ns
        return found

    def threads(self) -> int | None:
        """Return the number of threads of the interrupted run, or None if it is unknown."""
        from symmetries.training.resume import stored_threads

        return stored_threads(self.folder)

    def _check_ours(self) -> None:
        """Raise an error if the folder holds files of others, which would be removed with it."""
        inside = self.folder.rglob("*") if self.folder.is_dir() else [self.folder]
        for path in inside:
            if os.path.lexists(path) and not (path.is_dir() or KEPT.fullmatch(path.name)):
                raise OutputError(
                    f"{path}: in the folder where this run keeps its checkpoints, which goes at "
                    "its end; move what is there, or choose another --out"
                )

    def __enter__(self) -> "Checkpoints":
        from symmetries.cli.replacing import remove

        self._check_ours()
        remove(self._removed)  # a killed run may have left it
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
        with suppress(OSError):
            from symmetries.cli.replacing import remove

            os.rename(self.folder, self._removed)
            remove(self._removed)
