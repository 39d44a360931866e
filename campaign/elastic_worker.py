"""One process of a run that loses a worker: started by torchrun, see campaign/elastic.py.

``elastic_worker.py FOLDER RANK STEP``: in the first attempt the process of that rank kills itself
after that step (-1: nobody does).
"""

import os
import signal
import sys
from pathlib import Path

import small_runs
import torch
from torch import Tensor, nn

import symmetries.training
from symmetries.training import save_model


def main() -> None:
    """Train, going on from the last checkpoint; write the weights."""
    folder, rank, place = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    here, world = os.environ.get("RANK", "0"), int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    small_runs.WORLD.update(devices=local, nodes=world // local)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Dropout(0.5))
    model.append(nn.Linear(12, 3))

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: object) -> dict[str, Tensor]:
        return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}

    seen = []

    def on_step(step: symmetries.training.Step, metrics: object) -> None:
        seen.append(step.index)
        if first and here == rank and step.index == place:
            os.kill(os.getpid(), signal.SIGKILL)

    data = (small_runs.images(), small_runs.labels())
    config = small_runs.config(folder / "run", resume=True)
    symmetries.training.train(model, loss, data, config, on_step=on_step)
    if here == "0":
        save_model(folder / "model", model, {"steps": seen, "world": world})


if __name__ == "__main__":
    main()
