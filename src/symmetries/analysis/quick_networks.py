"""Small networks trained with and without an augmentation: what it brings on held-out pictures."""

import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries._utils.config import register_presets
from symmetries.analysis.augmentation_laws import Law, draw, moved
from symmetries.analysis.network_trials import LOOKED_AT, Size, Trial, one_cycle
from symmetries.analysis.stacked_networks import StackedTraining
from symmetries.training.step import mix

LARGEST = 32  # side to which larger pictures are shrunk
TOGETHER = 12  # trainings that share a GPU
STACKED = 256  # small networks that train as one
WARM = 3  # steps before a graph is captured
AHEAD = 50  # steps whose pictures are moved at once on a GPU, which waits for many small kernels


SIZES = register_presets(
    "prescribe", {"quick": Size(800, 64, 3), "default": Size(800, 128, 3, "resnet")}
)


def prepared(images: Tensor) -> Tensor:
    """Shrink pictures to at most 32 pixels on the longer side."""
    if max(images.shape[-2:]) <= LARGEST:
        return images
    size = [max(8, round(side * LARGEST / max(images.shape[-2:]))) for side in images.shape[-2:]]
    return F.interpolate(images, size, mode="bilinear", antialias=True)


class _Training:
    """A network in training, with all its random numbers drawn beforehand."""

    def __init__(self, trial: Trial, ahead: int | None = None) -> None:
        self.trial, x, size = trial, trial.images, trial.size
        self.steps = size.steps
        rows, drawn = trial.order()
        self.images, self.labels, self.still = x, trial.labels.to(x.device), trial.still
        self.rows, self.moves = rows.to(x.device), drawn.to(x.device)
        self.rates = torch.tensor(one_cycle(size.steps), device=x.device)
        self.at = torch.zeros(1, dtype=torch.int64, device=x.device)
        self.ahead = ahead or (AHEAD if x.is_cuda else 1)
        self.next = x.new_zeros(0 if self.still else self.ahead, size.batch, *x.shape[1:])
        self.net = trial.network()
        if x.is_cuda:
            self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.rate = torch.zeros((), device=x.device)
        self.optimiser = torch.optim.AdamW(
            self.net.parameters(), self.rate, weight_decay=0.05, fused=True, capturable=x.is_cuda
        )

    def prepare(self, done: int) -> None:
        """Move the pictures of the next steps, if those of the steps before are used up."""
        if self.still or done % self.ahead:
            return
        rows, moves = (part[done : done + self.ahead] for part in (self.rows, self.moves))
        made = self.trial.moved(self.images[rows.flatten()], moves.flatten(0, 1))
        self.next[: len(rows)] = made.unflatten(0, rows.shape)

    def step(self) -> None:
        """Perform one step; nothing in it waits for a GPU."""
        rows = self.rows.index_select(0, self.at)[0]
        y = self.labels[rows]
        x = self.images[rows] if self.still else self.next.index_select(0, self.at % self.ahead)[0]
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.rate.copy_(self.rates.index_select(0, self.at)[0])
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=False)
        self.at += 1

    def finish(self) -> list[torch.nn.Module]:
        """The trained network."""
        return [self.net.eval()]


def train(trials: list[Trial]) -> list[torch.nn.Module]:
    """Trained networks; on a GPU small ones are stacked, and stacks step side by side."""
    if trials[0].images.is_cuda:
        return _side_by_side(_stacks(trials), trials)
    return [net for trial in trials for net in _alone(_Training(trial))]


def _stacks(trials: list[Trial]) -> list[list[int]]:
    """Places of trials whose networks can train as one; others are alone."""
    stacks: dict[object, list[int]] = {}
    for place, trial in enumerate(trials):
        alike = (trial.size, trial.images.shape[1:], len(trial.laws))
        own = alike if trial.size.network == "cnn" else place
        stacks.setdefault(own, []).append(place)
    found = []
    for places in stacks.values():
        parts = -(-len(places) // STACKED)
        found += [places[part::parts] for part in range(parts)]
    return found


def _alone(training: "_Training | StackedTraining") -> list[torch.nn.Module]:
    for done in range(training.steps):
        training.prepare(done)
        training.step()
    return training.finish()


def _side_by_side(stacks: list[list[int]], trials: list[Trial]) -> list[torch.nn.Module]:
    """Networks of stacks of trials, some of which are trained at a time, each on a stream."""
    found: dict[int, torch.nn.Module] = {}
    for first in range(0, len(stacks), TOGETHER):
        running = []
        for places in stacks[first : first + TOGETHER]:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                own = [trials[place] for place in places]
                training = StackedTraining(own) if len(own) > 1 else _Training(own[0])
                for done in range(min(WARM, training.steps)):
                    training.prepare(done)
                    training.step()
            running.append((places, training, stream, _captured(training, stream)))
        for done in range(WARM, max(training.steps for _, training, _, _ in running)):
            for _, training, stream, step in running:
                if done < training.steps:
                    with torch.cuda.stream(stream):
                        training.prepare(done)
                        step()
        torch.cuda.synchronize()
        for places, training, _, _ in running:
            found.update(zip(places, training.finish(), strict=True))
    return [found[place] for place in range(len(trials))]


def _captured(
    training: "_Training | StackedTraining", stream: torch.cuda.Stream
) -> Callable[[], None]:
    """A step as a CUDA graph; as it is, with a warning, where that cannot be captured."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                training.step()
            finally:
                graph.capture_end()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        cause = error.__context__ or error  # the end of a capture reports another error
        text = f"training is slower: a step could not be captured as a CUDA graph: {cause}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return training.step
    return graph.replay


@torch.no_grad()
def scores_of(net: torch.nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Scores (2, N) of pictures: whether they are answered right, and the log-likelihood."""
    parts = images.split(LOOKED_AT[images.is_cuda])
    logs = torch.cat([net(part).float().log_softmax(1) for part in parts]).cpu()
    own = logs.gather(1, labels[:, None])[:, 0]
    return torch.stack((logs.argmax(1) == labels, own)).double()


def held_out_scores(
    images: Tensor, labels: Tensor, policies: list[list[Law]], fill: float | None, size: Size,
    seeds: list[int], test: list[Law] | None = None,
) -> Tensor:  # fmt: skip
    """Scores (P, R, 2, 2, N) of pictures, each by networks that have not seen it.

    For P policies and R cuts into folds; of pictures as they are and moved; see :func:`scores_of`.

    Args:
        images: (N, C, H, W), on the device to train on.
        labels: (N,) on the CPU.
        policies: laws, one for each class.
        fill: value around moved pictures; None reflects them.
        size: of the trainings.
        seeds: one for each cut into folds, its networks and draws.
        test: laws by which held-out pictures are moved; None moves none.
    """
    here, cuts, trials = images.device, [], []
    for row, seed in enumerate(seeds):
        for k, held in enumerate(folds(len(images), size.folds, seed)):
            x = images[(~held).to(here)]
            for policy, laws in enumerate(policies):
                cuts.append((policy, row, held, mix(seed, 84, k) % 2**31))
                trials.append(Trial(x, labels[~held], laws, fill, size, mix(seed, k)))
    scores = torch.zeros(len(policies), len(seeds), 2, 2, len(images), dtype=torch.float64)
    for (policy, row, held, seed), net in zip(cuts, train(trials), strict=True):
        x, own = images[held.to(here)], labels[held]
        scores[policy, row, :, :, held] = scores_of(net, x, own)
        if test is not None:
            generator = torch.Generator().manual_seed(seed)
            away = moved(x, draw(test, own, generator), fill)
            scores[policy, row, 1, :, held] = scores_of(net, away, own)
    return scores


def folds(count: int, number: int, seed: int) -> list[Tensor]:
    """Split pictures into held-out parts, with a boolean mask (N,) for each."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(mix(seed, 83)))
    fold = torch.empty(count, dtype=torch.int64)
    fold[order] = torch.arange(count) % number
    return [fold == k for k in range(number)]


def unmoved_networks(
    images: Tensor, labels: Tensor, classes: int, size: Size, seed: int
) -> tuple[list[torch.nn.Module], list[Tensor], list[Tensor]]:
    """Networks trained without augmentation, and pictures and labels that each has not seen."""
    here, laws = images.device, [Law()] * classes
    cuts = folds(len(images), size.folds, seed)
    networks = train(
        [
            Trial(images[(~held).to(here)], labels[~held], laws, 0.0, size, mix(seed, k))
            for k, held in enumerate(cuts)
        ]
    )
    return networks, [images[held.to(here)] for held in cuts], [labels[held] for held in cuts]
