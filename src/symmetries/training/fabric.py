"""The one place that knows under which name Lightning Fabric is installed."""

import importlib
import os
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from symmetries._validation.checks import as_device
from symmetries.training.config import TrainConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric
else:
    try:
        from lightning_fabric import Fabric
    except ImportError:  # only the `lightning` distribution is there
        from lightning.fabric import Fabric

__all__ = ["Fabric", "make_fabric", "place"]


def make_fabric(config: TrainConfig) -> Fabric:
    """Fabric for the devices, nodes and precision of ``config``, launched.

    With several processes the gradients are averaged by DDP. Parameters that a step leaves out are
    allowed (learners with several networks do that), at the price of one walk over the graph.
    """
    kind, _, number = config.device.partition(":")
    several = config.hardware.devices * config.hardware.nodes > 1
    if kind != "auto" and not several:
        as_device(config.device)
    fabric = Fabric(
        accelerator=kind,
        devices=[int(number)] if number else config.hardware.devices,
        num_nodes=config.hardware.nodes,
        precision=cast(Any, config.hardware.precision),
        strategy="ddp_find_unused_parameters_true" if several else "auto",
        plugins=None if several else _alone(),
    )
    if several:
        _meet_again(fabric.device)
    fabric.launch()
    return fabric


def _alone() -> Any:  # noqa: ANN401 - Fabric's plugins
    """A run of one process looks at no scheduler: srun may have started several such runs."""
    if "SLURM_NTASKS" not in os.environ:
        return None
    plugins = importlib.import_module(Fabric.__module__.removesuffix(".fabric") + ".plugins")
    return [plugins.environments.LightningEnvironment()]


def _meet_again(device: torch.device) -> None:
    """After torchrun started the processes again, find each other under names of this attempt.

    The store in which they meet outlives an attempt, and holds the addresses of those who died.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    group: Any = torch.distributed
    if attempt == "0" or not group.is_available() or group.is_initialized():
        return
    store, rank, world = next(group.rendezvous("env://"))
    store = group.PrefixStore(f"attempt-{attempt}", store)
    backend = "nccl" if device.type == "cuda" else "gloo"
    group.init_process_group(backend, store=store, rank=rank, world_size=world)


def place(fabric: Fabric, module: nn.Module) -> nn.Module:
    """The module in the run's precision, on its device, wrapped by DDP where there are several.

    ``Fabric.setup`` would add a wrapper that rounds inputs for mixed precision, targets included,
    and costs 50 microseconds a call.
    """
    module = fabric.strategy.precision.convert_module(module)
    fabric.to_device(module)
    return fabric.strategy.setup_module(module)
