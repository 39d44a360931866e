"""Devices and precision of a run: of one process, or of several by Lightning Fabric."""

import atexit
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from symmetries._validation.checks import as_device
from symmetries.training.config import TrainConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def fabric_class() -> "type[Fabric]":
    """Import Fabric, which takes seconds: only several processes need it."""
    try:
        import lightning_fabric as module
    except ImportError:  # only the `lightning` distribution is installed
        module = importlib.import_module("lightning.fabric")
    return module.Fabric


class OneProcess:
    """Substitute for Fabric in a run of one process; importing Fabric takes seconds.

    Args:
        device: as in :class:`symmetries.training.TrainConfig`.
        precision: the same.
    """

    global_rank, world_size, is_global_zero = 0, 1, True

    def __init__(self, device: str, precision: str) -> None:
        kind, _, number = device.partition(":")
        if kind == "auto":
            available = (torch.cuda.is_available(), torch.backends.mps.is_available(), True)
            kind = ("cuda", "mps", "cpu")[available.index(True)]
        self.device = torch.device(kind, int(number or 0)) if kind == "cuda" else torch.device(kind)
        if kind == "cuda":
            torch.cuda.set_device(self.device)
        bits, _, mode = precision.partition("-")
        self.dtype = {"64": torch.float64, "bf16": torch.bfloat16}.get(bits)
        self.mixed = mode == "mixed"
        self.strategy = self.precision = self

    def to_device(self, module: nn.Module) -> nn.Module:
        """Move a module to the device."""
        return module.to(self.device)

    def setup_module(self, module: nn.Module) -> nn.Module:
        """Return the module, which needs no wrapper."""
        return module

    def convert_module(self, module: nn.Module) -> nn.Module:
        """Round the parameters of a module, unless precision is mixed."""
        return module if self.mixed or self.dtype is None else module.to(self.dtype)

    def convert_input(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Round the numbers of a batch as the parameters are."""
        return tuple(x.to(self.dtype) if x.is_floating_point() else x for x in batch)

    @contextmanager
    def forward_context(self) -> Iterator[None]:
        """Run operations in the precision, and make new tensors of that type."""
        if self.dtype is None:
            yield
        elif self.mixed:
            with torch.autocast(self.device.type, self.dtype):
                yield
        else:
            before = torch.get_default_dtype()
            torch.set_default_dtype(self.dtype)
            try:
                yield
            finally:
                torch.set_default_dtype(before)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradient of a loss."""
        loss.backward()

    def optimizer_step(self, optimizer: Optimizer) -> None:
        """Update the parameters."""
        optimizer.step()


def make_fabric(config: TrainConfig) -> Any:  # noqa: ANN401 - Fabric has two names
    """Return a launched Fabric for several processes, or :class:`OneProcess`.

    With several processes DDP averages the gradients. Parameters that a step does not use are
    allowed (learners with several networks need this), at the cost of one traversal of the graph.
    """
    kind = config.device.partition(":")[0]
    if config.hardware.devices * config.hardware.nodes == 1:
        if kind != "auto":
            as_device(config.device)
        return OneProcess(config.device, config.hardware.precision)
    fabric = fabric_class()(
        accelerator=kind,
        devices=config.hardware.devices,
        num_nodes=config.hardware.nodes,
        precision=cast(Any, config.hardware.precision),
        strategy="ddp_find_unused_parameters_true",
    )
    _rejoin(fabric.device)
    fabric.launch()
    if fabric.device.type == "cpu":
        atexit.register(_leave)
    return fabric


def _leave() -> None:
    """Destroy the process group before Python ends.

    Otherwise threads of gloo that still run when a processor is busy end the process by SIGABRT,
    and the launcher takes a finished run for a failed one.
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _rejoin(device: torch.device) -> None:
    """Join the process group under a name of this attempt after torchrun restarted the processes.

    The rendezvous store outlives an attempt and still holds the addresses of the dead processes.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    group: Any = torch.distributed
    if attempt == "0" or not group.is_available() or group.is_initialized():
        return
    store, rank, world = next(group.rendezvous("env://"))
    store = group.PrefixStore(f"attempt-{attempt}", store)
    backend = "nccl" if device.type == "cuda" else "gloo"
    group.init_process_group(backend, store=store, rank=rank, world_size=world)


def place(fabric: Any, module: nn.Module) -> nn.Module:  # noqa: ANN401
    """Move the module to the run's precision and device, and wrap it in DDP if there are several.

    ``Fabric.setup`` would add a wrapper that rounds inputs for mixed precision, including targets,
    and costs 50 microseconds per call.
    """
    module = fabric.strategy.precision.convert_module(module)
    fabric.to_device(module)
    return fabric.strategy.setup_module(module)
