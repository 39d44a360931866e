"""One step of a run as the loss sees it: where we are, and where random numbers come from."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from symmetries._utils.per_example_random import ExampleGenerator, per_example_random
from symmetries._validation.checks import as_device, check_whole

_MASK = (1 << 64) - 1

# Different words for different uses of one seed.
_ORDER, _STEP, _LAYERS, _EXAMPLE = 1, 2, 3, 4


def mix(*words: int) -> int:
    """A 63-bit seed from several whole numbers (a chain of SplitMix64 finalisers).

    Neighbouring inputs give unrelated seeds, on every machine the same ones.

    Example:
        >>> mix(0, 1) != mix(1, 0)
        True
    """
    state = 0
    for word in words:
        state = (state + word + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state >> 1


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Initial weights from a seed, the global generator left as it was."""
    check_whole(seed, "seed", least=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def order_seed(seed: int, epoch: int) -> int:
    """Seed of the order of the examples in an epoch."""
    return mix(seed, _ORDER, epoch)


def example_seed(seed: int, position: int) -> int:
    """Seed of whatever a ``Dataset`` draws for the example at a position of the run."""
    return mix(seed, _EXAMPLE, position)


def _seed_layers(device: torch.device, seed: int) -> None:
    # torch.manual_seed does this for every device there is, at a hundred times the cost.
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


class HostReadError(RuntimeError):
    """The step's number was read by Python code while the step was about to become a graph."""


class Step:
    """Where a run stands, and the random numbers of this step.

    All numbers follow from (seed, step), so a resumed run needs no stored random state:

    - ``generator`` gives the same numbers in every process: for draws shared by the whole batch.
    - ``rand`` and ``randn`` give numbers that belong to the examples: with several processes each
      gets the rows of its own examples, as one process with the whole batch would. Functions that
      take a generator do the same with
      :func:`~symmetries._utils.per_example_random.per_example_random`.
    - Layers that draw from the global generators have them seeded here, alike in every process;
      dropout then drops in each example what it would drop in one process.

    The loop makes one and moves it on; a loss only reads it. Whatever else a loss computes in
    Python from the step's number must use ``progress``, which is a tensor, where the step is to be
    captured as a CUDA graph; reading ``index`` keeps the run out of a graph (and correct).

    Args:
        total: steps of the whole run.
        seed: of the run.
        device: where the loss is computed.
        rank: number of this process.
        world: number of processes.

    Example:
        >>> step = Step(total=10, seed=0, device=torch.device("cpu"))
        >>> step.begin(5)
        >>> step.index, float(step.progress)
        (5, 0.5)
        >>> first = step.randn(2, 3)
        >>> step.begin(5)
        >>> torch.equal(step.randn(2, 3), first)
        True
    """

    def __init__(
        self, total: int, seed: int, device: torch.device, rank: int = 0, world: int = 1
    ) -> None:
        check_whole(total, "total")
        check_whole(seed, "seed", least=0, most=2**64)
        check_whole(world, "world")
        check_whole(rank, "rank", least=0, most=world - 1)
        device = as_device(device)
        self.total = total
        self.seed = seed
        self.device = device
        self.rank = rank
        self.world = world
        # A CUDA graph (of one process) knows only torch's own class of generators.
        self.generator = torch.Generator(device) if world == 1 else ExampleGenerator(device)
        if isinstance(self.generator, ExampleGenerator):
            self.generator.rank, self.generator.world = rank, world
        self.host = True  # whether Python may read the number: not while a graph is made
        self._index = 0
        self._on_device: Tensor | None = None

    def begin(self, index: int) -> None:
        """Move to a step and seed its random numbers."""
        check_whole(index, "index", least=0)
        self._index = index
        self.generator.manual_seed(mix(self.seed, _STEP, index))
        _seed_layers(self.device, mix(self.seed, _LAYERS, index, 0))
        if self._on_device is not None:
            self._on_device.fill_(index / self.total)

    @property
    def index(self) -> int:
        """Number of this step, from 0."""
        if not self.host:
            raise HostReadError(
                "the loss reads step.index, which a CUDA graph would freeze; "
                "compute with step.progress (a tensor), or set graph='off'"
            )
        return self._index

    @property
    def progress(self) -> Tensor:
        """``index / total`` as a tensor without axes, on the device."""
        if self._on_device is not None:
            return self._on_device
        return torch.full((), self._index / self.total, device=self.device)

    def sources(self) -> tuple[torch.Generator, ...]:
        """All generators a step draws from, beside the global ones."""
        return (self.generator,)

    def keep_on_device(self) -> None:
        """Hold ``progress`` in one fixed tensor from now on, as a graph needs it."""
        self._on_device = self.progress.clone()

    def rand(self, *shape: int) -> Tensor:
        """Uniform numbers in [0, 1), of which the first axis runs over this process's examples."""
        return per_example_random(torch.rand, shape, 0, self.generator, device=self.device)

    def randn(self, *shape: int) -> Tensor:
        """Standard normal numbers; the first axis runs over this process's examples."""
        return per_example_random(torch.randn, shape, 0, self.generator, device=self.device)


class Steps(Step):
    """The step of several models that train as one: each has the random numbers of its own seed.

    ``rand``, ``randn`` and ``generator`` are those of the first seed, except where
    :class:`symmetries.training.stacked_rng.OwnNumbers` is active.

    Args:
        total: steps of the whole run.
        seeds: of the runs.
        device: where the loss is computed.

    Example:
        >>> steps = Steps(10, (3, 4), torch.device("cpu"))
        >>> steps.begin(5)
        >>> alone = Step(10, 4, torch.device("cpu"))
        >>> alone.begin(5)
        >>> alone.generator.initial_seed() == steps.generators[1].initial_seed()
        True
    """

    def __init__(self, total: int, seeds: Sequence[int], device: torch.device) -> None:
        super().__init__(total, seeds[0], device)
        self.seeds = tuple(seeds)
        self.generators = (self.generator, *(torch.Generator(device) for _ in seeds[1:]))
        self.layers = tuple(torch.Generator(device) for _ in seeds)

    def begin(self, index: int) -> None:
        """Move to a step and seed the random numbers of all models."""
        super().begin(index)
        for seed, own, layers in zip(self.seeds, self.generators, self.layers, strict=True):
            own.manual_seed(mix(seed, _STEP, index))
            layers.manual_seed(mix(seed, _LAYERS, index, 0))

    def sources(self) -> tuple[torch.Generator, ...]:
        """All generators a step draws from."""
        return (*self.generators, *self.layers)
