"""Early stopping: the weights with the lowest loss on held-out images."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from symmetries.training.batches import Batch, Draws
from symmetries.training.checkpoint import has_state, load_state, remove_state, save_model
from symmetries.training.config import TrainConfig
from symmetries.training.step import Step, due

LOOKS = 20  # over a training
BATCH = 512
Loss = Callable[[nn.Module, tuple[Tensor, ...], Step], Mapping[str, Tensor]]


class BestWeights:
    """Measures the loss on held-out images during training, and keeps the best weights.

    Made to be the ``on_step`` of :func:`symmetries.training.train`. Random numbers are the same at
    every look. With a folder the best weights are written, so that a resumed run knows them.

    Args:
        model: whose weights are kept.
        images: held out, (N, C, H, W).
        loss: of the training.
        config: of the training.
        looks: over the whole training.
        prepare: from images and random numbers to what the loss gets; called once for all looks,
            which have the same numbers. None: the loss gets the images.
        weights: beginnings of the names of the weights that are kept; by default all. Parts of a
            model that share no weights have a best moment each.
        folder: name of the folder within that of the run.
    """

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        loss: Loss,
        config: TrainConfig,
        looks: int = LOOKS,
        prepare: Callable[[Batch, Draws], Batch] | None = None,
        weights: tuple[str, ...] = ("",),
        folder: str = "best",
    ) -> None:
        self.model = model
        self.images = images
        self.loss = loss
        self.prepare = prepare
        self.weights = weights
        self._prepared: dict[int, Batch] = {}
        self.every = max(1, config.steps // looks)
        self.total = config.steps
        self.folder: Path | None = None if config.out is None else config.out / folder
        self.best = math.inf
        self.when = 0  # steps until the best look
        self.state: dict[str, Tensor] = {}
        if self.folder is None or not self.folder.is_dir():
            return
        if not config.resume:  # what an earlier run left must not win over this one
            remove_state(self.folder, "model")
        elif has_state(self.folder, "model"):
            self.state, meta = load_state(self.folder)
            self.best, self.when = float(meta["held_out"]), int(meta["steps"])

    def __call__(self, step: Step, metrics: Mapping[str, Tensor]) -> None:
        """Measure the held-out loss if a measurement is due at this step."""
        done = step.index + 1
        if not due(done - step.taken, done, self.every) and done != self.total:
            return
        value = self.look(step.device)
        if value < self.best:
            self.best, self.when = value, done
            self.state = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
            if self.folder is not None and step.rank == 0:
                save_model(self.folder, self.model, {"held_out": value, "steps": done})

    @torch.no_grad()
    def look(self, device: torch.device) -> float:
        """Return the mean loss of the held-out images."""
        step = Step(total=1, seed=0, device=device)
        kind = next(self.model.parameters()).dtype
        self.model.eval()
        losses, counts = [], []
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            for start in range(0, len(self.images), BATCH):
                step.generator.manual_seed(start)
                batch = self._batch(start, step, kind)
                losses.append(self.loss(self.model, batch, step)["loss"])
                counts.append(len(batch[0]))
        self.model.train()
        pairs = zip(torch.stack(losses).tolist(), counts, strict=True)
        return float(sum(loss * count for loss, count in pairs)) / len(self.images)

    def _batch(self, start: int, step: Step, kind: torch.dtype) -> Batch:
        """Return what the loss gets of the images from ``start`` on."""
        if start in self._prepared:
            return self._prepared[start]
        batch: Batch = (self.images[start : start + BATCH].to(step.device, kind),)
        if self.prepare is not None:
            batch = self._prepared[start] = self.prepare(batch, step)
        return batch

    def restore(self) -> None:
        """Load the best weights into the model."""
        if self.state:
            self.load(self.state)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Load the weights that are kept from a state of the whole model."""
        own = {name: value for name, value in state.items() if name.startswith(self.weights)}
        self.model.load_state_dict({**self.model.state_dict(), **own})
