"""Work on many examples in parts, shared by processes and stored so that runs can resume."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symmetries._utils.provenance import source_digest, threads, versions
from symmetries.auditing.examine import joined
from symmetries.training import TrainConfig, load_state
from symmetries.training.batches import Data
from symmetries.training.checkpoint import has_state, write_state
from symmetries.training.fabric import make_fabric
from symmetries.training.fingerprint import fingerprint

if TYPE_CHECKING:
    from symmetries.cli.runs import Run

Values = dict[str, Tensor]
Part = Callable[[int, int], Values]


class Parts:
    """Applies ``part(start, stop)``, which computes numbers of some examples, to all examples.

    What is found does not depend on the number of processes, as long as it does not for ``part``.
    Every part that is done is written to ``OUT.resume``. A part of other data, of another model, of
    another command or of other code is made anew.

    Args:
        run: whose processes share the work; they are started here.
        size: of a part.
        advance: called after each part.
        data: the examples, or their digest.
        model: the digest of the model that looks at them.
    """

    def __init__(
        self,
        run: "Run",
        size: int,
        advance: Callable[[str], None],
        data: Data | str | None = None,
        model: str | None = None,
    ) -> None:
        self.folder: Path = run.checkpoints.folder
        self.resume = run.checkpoints.resume
        self.identity: dict[str, Any] = {
            "command": run.command,
            "data": data if data is None or isinstance(data, str) else _digest(data),
            "model": model,
            "code": source_digest(),
            "versions": versions(),
            "threads": threads(),
        }
        self.size = size
        self.advance = advance
        self.fabric = start_processes(run)

    def __call__(self, part: Part, count: int) -> Values:
        """Return the numbers in the order of the examples; only the first process has all."""
        rank, world = self.fabric.global_rank, self.fabric.world_size
        found: dict[int, Values] = {}
        for number, start in enumerate(range(0, count, self.size)):
            if number % world == rank:
                found[start] = self._one(part, start, min(start + self.size, count))
            self.advance("")
        if world > 1:
            found = self._gather(found)
        return joined([found[start] for start in sorted(found)])

    def _one(self, part: Part, start: int, stop: int) -> Values:
        name = f"part-{start}-{stop}"
        if self.resume and has_state(self.folder, name):
            values, meta = load_state(self.folder, name)
            if meta == self.identity:
                return values
        values = part(start, stop)
        write_state(self.folder, name, values, self.identity)
        return values

    def _gather(self, mine: dict[int, Values]) -> dict[int, Values]:
        world = self.fabric.world_size
        every: list[Any] = [None] * world
        torch.distributed.all_gather_object(every, mine)
        return {start: values for part in every for start, values in part.items()}


def _digest(data: Data) -> str | None:
    return fingerprint(data, most=sys.maxsize)


def start_processes(run: "Run") -> Any:  # noqa: ANN401 - Fabric has two names
    """Start the other processes of a run; each of them runs the same command up to this call."""
    machine = run.machine
    return make_fabric(
        TrainConfig(1, 1, device=machine.device).replace(
            precision=machine.precision, devices=machine.devices, nodes=machine.nodes
        )
    )


def stop_processes() -> None:
    """Destroy the process group; otherwise processes that end first cause error messages."""
    group: Any = torch.distributed
    if group.is_available() and group.is_initialized() and group.get_rank() > 0:
        group.destroy_process_group()
