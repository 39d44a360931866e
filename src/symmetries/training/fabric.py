"""Construction of Lightning Fabric, under either name of its distribution."""

import atexit
import importlib
import os
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from symmetries._validation.checks import as_device
from symmetries.training.config import TrainConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def fabric_class() -> "type[Fabric]":
    """Import Fabric, which takes seconds: only trainings and several processes need it."""
    try:
        import lightning_fabric as module
    except ImportError:  # only the `lightning` distribution is installed
        module = importlib.import_module("lightning.fabric")
    return module.Fabric


def make_fabric(config: TrainConfig) -> "Fabric":
    """Return a launched Fabric for the devices, nodes and precision of ``config``.

    With several processes DDP averages the gradients. Parameters that a step does not use are
    allowed (learners with several networks need this), at the cost of one traversal of the graph.
    """
    kind, _, number = config.device.partition(":")
    several = config.hardware.devices * config.hardware.nodes > 1
    if kind != "auto" and not several:
        as_device(config.device)
    fabric = fabric_class()(
        accelerator=kind,
        devices=[int(number)] if number else config.hardware.devices,
        num_nodes=config.hardware.nodes,
        precision=cast(Any, config.hardware.precision),
        strategy="ddp_find_unused_parameters_true" if several else "auto",
        plugins=None if several else _single_process(),
    )
    if several:
        _rejoin(fabric.device)
    fabric.launch()
    if several and fabric.device.type == "cpu":
        atexit.register(_leave)
    return fabric


def _leave() -> None:
    """Destroy the process group before Python ends.

    Otherwise threads of gloo that still run when a processor is busy end the process by SIGABRT,
    and the launcher takes a finished run for a failed one.
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _single_process() -> Any:  # noqa: ANN401 - Fabric's plugins
    """Return plugins that ignore job schedulers: srun may start several single runs."""
    if "SLURM_NTASKS" not in os.environ:
        return None
    plugins = importlib.import_module(
        fabric_class().__module__.removesuffix(".fabric") + ".plugins"
    )
    return [plugins.environments.LightningEnvironment()]


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


def place(fabric: "Fabric", module: nn.Module) -> nn.Module:
    """Move the module to the run's precision and device, and wrap it in DDP if there are several.

    ``Fabric.setup`` would add a wrapper that rounds inputs for mixed precision, including targets,
    and costs 50 microseconds per call.
    """
    module = fabric.strategy.precision.convert_module(module)
    fabric.to_device(module)
    return fabric.strategy.setup_module(module)
