"""Fits an invariant network in two processes: python network_worker.py PORT RANK FILE."""

import json
import os
import sys
from pathlib import Path

import torch
from torch import nn

from symmetries.learners.invariant_network import InvariantNetwork, InvariantNetworkConfig

CONFIG = InvariantNetworkConfig(samples=4).replace(
    steps=8, batch_size=20, every=4, search=2, curvature_rows=40
)


def fitted(folder: Path | None, **changes: float) -> InvariantNetwork:
    """A network on random pictures; the same in every process."""
    torch.manual_seed(0)
    images, labels = torch.rand(40, 1, 6, 6), torch.arange(40) % 3
    module = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    model = InvariantNetwork(module, "rotation", (1, 6, 6), CONFIG.replace(**changes))
    several = {"devices": 2} if "WORLD_SIZE" in os.environ else {}
    model.fit((images, labels), device="cpu", progress=False, out=folder, **several)
    return model


def main() -> None:
    """Fit with a search, and by gradients; the first process writes what was learned."""
    port, rank, file = sys.argv[1:]
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    names |= {"GROUP_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in names.items()})
    os.environ["TORCHELASTIC_RUN_ID"] = "test"
    torch.set_num_threads(1)
    searched, moved = fitted(Path(file).parent / "run"), fitted(None, search=0)
    if rank == "0":
        found = {"values": searched.profiles[0].values, "width": moved.network.box.free.tolist()}
        Path(file).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
