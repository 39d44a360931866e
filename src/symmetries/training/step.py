"""State of one step as the loss sees it: its number, its progress and its random numbers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from symmetries._utils.per_example_random import ExampleGenerator, per_example_random
from symmetries._validation.checks import as_device, check_whole

_MASK = (1 << 64) - 1

# Different words, mixed into the seed, for its different uses.
_ORDER, _STEP, _LAYERS, _EXAMPLE = 1, 2, 3, 4


def mix(*words: int) -> int:
    """Return a 63-bit seed from several integers (a chain of SplitMix64 finalisers).

    Neighbouring inputs give unrelated seeds, which are the same on every machine.

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
    """Seed the global generator inside the block, and restore it after: for initial weights."""
    check_whole(seed, "seed", least=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def order_seed(seed: int, epoch: int) -> int:
    """Return the seed of the order of the examples in an epoch."""
    return mix(seed, _ORDER, epoch)


def example_seed(seed: int, position: int) -> int:
    """Return the seed of the random numbers of a ``Dataset`` for the example at a position."""
    return mix(seed, _EXAMPLE, position)


def _seed_layers(device: torch.device, seed: int) -> None:
    # torch.manual_seed does this for every device present, at a hundred times the cost.
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


def due(before: int, done: int, every: int) -> bool:
    """Whether a multiple of ``every`` was reached after ``before`` steps, with ``done`` of them.

    Example:
        >>> due(9, 10, 5), due(10, 11, 5), due(8, 16, 10)
        (True, False, True)
    """
    return done // every > before // every


class HostReadError(RuntimeError):
    """Python code read the step's number during the trial capture of a CUDA graph."""


class Step:
    """Position in a run, and the random numbers of the step.

    All random numbers follow from (seed, step), so a resumed run needs no stored random state:

    - ``generator`` draws the same numbers in every process, for draws shared by the whole batch.
    - ``rand`` and ``randn`` draw numbers that belong to the examples: with several processes each
      gets the rows of its own examples, as one process with the whole batch would. Functions that
      take a generator do the same with
      :func:`~symmetries._utils.per_example_random.per_example_random`.
    - The global generators are seeded too, identically in every process, for layers that draw from
      them; dropout then drops in each example what it would drop in one process.

    The loop creates the step and advances it; a loss only reads it. If the step is to be captured
    as a CUDA graph, a loss must compute with the tensor ``progress``; reading ``index`` in Python
    keeps the run eager (and correct).

    Args:
        total: number of steps of the whole run.
        seed: seed of the run.
        device: device of the loss.
        rank: index of this process.
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
        # A CUDA graph (of one process) supports only torch's own class of generators.
        self.generator = torch.Generator(device) if world == 1 else ExampleGenerator(device)
        if isinstance(self.generator, ExampleGenerator):
            self.generator.rank, self.generator.world = rank, world
        self.taken = 1  # steps since the one that a callback saw last
        self.host = True  # whether Python may read the number: not during capture
        self._index = 0
        self._on_device: Tensor | None = None

    def begin(self, index: int) -> None:
        """Advance to a step and seed its random numbers."""
        check_whole(index, "index", least=0)
        self._index = index
        self.seed_examples(index)
        _seed_layers(self.device, mix(self.seed, _LAYERS, index, 0))
        if self._on_device is not None:
            self._on_device.fill_(index / self.total)

    def seed_examples(self, index: int) -> None:
        """Seed ``rand``, ``randn`` and ``generator`` as at the beginning of a step."""
        self.generator.manual_seed(mix(self.seed, _STEP, index))

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
        """``index / total`` as a scalar tensor on the device."""
        if self._on_device is not None:
            return self._on_device
        return torch.full((), self._index / self.total, device=self.device)

    def sources(self) -> tuple[torch.Generator, ...]:
        """Return all generators that a step draws from, except the global ones."""
        return (self.generator,)

    def keep_on_device(self) -> None:
        """Keep ``progress`` in one fixed tensor from now on, as a CUDA graph requires."""
        self._on_device = self.progress.clone()

    def rand(self, *shape: int) -> Tensor:
        """Return uniform numbers in [0, 1); the first axis runs over this process's examples."""
        return per_example_random(torch.rand, shape, 0, self.generator, device=self.device)

    def randn(self, *shape: int) -> Tensor:
        """Return standard normal numbers; the first axis runs over this process's examples."""
        return per_example_random(torch.randn, shape, 0, self.generator, device=self.device)


class Steps(Step):
    """Step of several models that train as one, each with the random numbers of its own seed.

    ``rand``, ``randn`` and ``generator`` are those of the first seed, except where
    :class:`symmetries.training.stacked_rng.StackedRng` is active.

    Args:
        total: number of steps of the whole run.
        seeds: seeds of the runs.
        device: device of the loss.

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
        """Advance to a step and seed the random numbers of all models."""
        super().begin(index)
        for seed, own, layers in zip(self.seeds, self.generators, self.layers, strict=True):
            own.manual_seed(mix(seed, _STEP, index))
            layers.manual_seed(mix(seed, _LAYERS, index, 0))

    def sources(self) -> tuple[torch.Generator, ...]:
        """Return all generators that a step draws from."""
        return (*self.generators, *self.layers)
