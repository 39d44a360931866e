"""A run of a command: its device, its output folder and its provenance."""

import logging
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from symmetries.analysis.provenance import run_info
from symmetries.analysis.settings import Session, choose_device, choose_preset
from symmetries.cli.options import Machine, Output, Reading, typed_words
from symmetries.cli.output import check_name, output_folder, owned
from symmetries.cli.resuming import Checkpoints, is_helper
from symmetries.cli.shown import check_stdout, escape, write_json
from symmetries.results import Result, RunInfo

if TYPE_CHECKING:
    import torch

LAST = ("out", "preset", "seed", "device", "precision", "devices", "nodes")  # in a command
UNRECORDED = ("overwrite", "quiet", "json", "resume")  # options that no recorded command has
BF16_PROBE = "import torch; m = torch.nn.Linear(64, 64).bfloat16(); m(torch.rand(8, 64).bfloat16())"


@dataclass(frozen=True)
class Run:
    """One run of a command.

    Args:
        command: as it is typed, to run it again.
        out: the folder or file that it writes.
        machine: how numbers are computed.
        output: what is shown.
        place: the device.
        preset: how large and how long.
        checkpoints: what an interrupted run keeps.
        started: on the clock of ``time.perf_counter``.
    """

    command: str
    out: Path
    machine: Machine
    output: Output
    place: "torch.device"
    preset: str
    checkpoints: Checkpoints
    started: float

    @property
    def seed(self) -> int:
        """Random seed."""
        return self.machine.seed

    @property
    def quiet(self) -> bool:
        """Whether progress bars are hidden."""
        return self.output.quiet

    @property
    def processes(self) -> int:
        """Number of processes."""
        return self.machine.devices * self.machine.nodes

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Provide a folder to write to, which becomes ``out`` if the block succeeds."""
        target = output_folder(self.out, self.output.overwrite)
        with owned(self.out), self.checkpoints, target as partial:
            yield partial

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return round(time.perf_counter() - self.started, 3)

    def info(self) -> RunInfo:
        """Return the provenance that is stored in the result."""
        return run_info(self.command, self.seed, self.place, self.seconds)

    def session(self, reading: Reading | None = None) -> Session:
        """Return the run as functions of ``analysis`` take it, with how DATA is read."""
        progress = not (self.quiet or is_helper(self.processes))
        training = {
            "out": self.checkpoints.folder,
            "resume": self.checkpoints.resume,
            "device": self.machine.device,
            "devices": self.machine.devices,
            "nodes": self.machine.nodes,
            "precision": self.machine.precision,
            "progress": progress,
        }
        how = (reading or Reading()).arguments()
        shared = (self.seed, self.place, self.preset, self.info, progress, self.say)
        return Session(*shared, how, training)

    def say(self, text: str) -> None:
        """Print a line on the error stream, in the first process only."""
        if not is_helper(self.processes):
            quiet = self.quiet or self.output.json
            Console(emoji=False, stderr=True, quiet=quiet, highlight=False).print(
                escape(text), soft_wrap=True
            )

    def show(
        self, result: Result, table: Table, names: Sequence[str], warnings: Sequence[str] = ()
    ) -> None:
        """Print the warnings and the result, and list the files that were written.

        Warnings are printed with ``--quiet``, too: on the standard error, as with ``--json``.
        """
        console = Console(emoji=False, stderr=self.output.json, quiet=self.quiet)
        if self.output.json:
            write_json(result.model_dump(mode="json"))
        said = Console(
            emoji=False, stderr=self.output.json or self.quiet, soft_wrap=True, highlight=False
        )
        for text in warnings:
            said.print(f"[bold yellow]warning[/]: {escape(text)}")
        console.print(table)
        say_written(console, self.out, names)


def begin(name: str, out: Path, machine: Machine, output: Output, preset: str | None = None) -> Run:
    """Check the options that need no data, and start the clock.

    Args:
        name: of the command.
        out: the folder or file to write.
        machine: how numbers are computed.
        output: what is shown.
        preset: as given; None is right for the device.
    """
    started = time.perf_counter()
    if output.quiet:  # Fabric says how many processes it starts
        logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
        logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    check_name(out)
    if output.json:
        check_stdout()
    place = choose_device(machine.device)
    check_precision(machine.precision, place)
    chosen = choose_preset(preset, place)
    typed = typed_words() | {"out": ["--out", str(out)]}
    if "preset" in typed:
        typed["preset"] = ["--preset", chosen]
    first = [option for option in typed if option not in (*LAST, *UNRECORDED)]
    words = [word for option in (*first, *LAST) for word in typed.get(option, ())]
    command = shlex.join(["symmetries", name, *words])
    again = command + (" --overwrite" if output.overwrite else "")
    checkpoints = Checkpoints(out, machine.resume, again)
    run = Run(command, out, machine, output, place, chosen, checkpoints, started)
    if checkpoints.found:
        keep_threads(checkpoints.threads())
    if machine.resume and not checkpoints.found:
        run.say(f"nothing to resume in {checkpoints.folder}: starting anew")
    return run


def keep_threads(number: int | None) -> None:
    """Set the number of threads, if one is given; the rounding of sums depends on it."""
    import torch

    if number is not None and number != torch.get_num_threads():
        torch.set_num_threads(number)


def say_written(console: Console, out: Path, names: Sequence[str]) -> None:
    """List the files that were written."""
    for name in names:
        console.print(f"wrote [bold]{escape(str(out / name))}[/]", soft_wrap=True)


def check_precision(name: str, device: "torch.device") -> None:
    """Raise an error for an unknown precision, or one that would crash this process.

    Some virtual processors claim instructions for bfloat16 that they do not have; the only safe
    way to find out is to let another process try (-P: without modules of the working folder).
    """
    from symmetries._validation.checks import check_choice, invalid
    from symmetries.training.config import PRECISIONS

    check_choice(name, PRECISIONS, "precision")
    if name.startswith("bf16") and device.type == "cpu":
        tried = subprocess.run(
            [sys.executable, "-P", "-c", BF16_PROBE], capture_output=True, check=False
        )
        if tried.returncode:
            remedy = "use 32-true, or another device"
            raise invalid("precision", "one that this processor can compute in", name, remedy)
