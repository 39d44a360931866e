"""How the networks of the tables are trained: mini-batches, natural-gradient steps, and presets."""

from dataclasses import dataclass, replace

from crossed import Crossed

from symmetries.learners.invariant_weights import NaturalConfig


@dataclass(frozen=True)
class Stochastic:
    """The paper's training: Adam on everything, one mini-batch at a time (SGVB).

    Args:
        steps: number of steps.
        batch_size: examples per step.
        samples: S transformations.
        sampling: of the transformations.
        lr: of filters and posterior, cosine to 0.
        width_lr: of the widths; 0 holds them where a search has put them.
        rest: share of the steps in which the filters rest, from the first.
        scale: deviation of the posterior at the start.
        posterior: covariance of the last layer; "point" has none, and no KL.
        learn_prior: whether the prior variance is learned, in closed form.
        search: transformations of a search, which finds the widths to start with for filters as
            they are drawn, with a last layer in closed form; 0 goes without.
        search_examples: how many it looks at.
        order: "given": gradients first, then along one parameter after the other; "best": from
            widths of 0, along the parameter first that helps most.
        crossed: a search with trained filters, by the bound on images that they have not seen.
        augerino: strength of Augerino's reward for widths, in the place of the KL; 0 is the bound.
    """

    steps: int = 4000
    batch_size: int = 128
    samples: int = 32
    sampling: str = "sobol"
    lr: float = 2e-3
    width_lr: float = 0.02
    rest: float = 0.1
    scale: float = 0.05
    posterior: str = "full"
    learn_prior: bool = True
    search: int = 0
    search_examples: int = 4_000
    order: str = "given"
    crossed: Crossed | None = None
    augerino: float = 0.0


@dataclass(frozen=True)
class Natural:
    """Natural-gradient steps on the last layer: first on a part of the examples, then on all.

    Args:
        coarse: on the first ``examples`` of the set, where widths follow their gradient; None
            where those are fixed.
        fine: on all of them.
        examples: of the coarse stage.
        search: transformations of a line search over the widths between the two; 0 goes without.
        learn_prior: whether the prior variance is learned.
    """

    coarse: NaturalConfig | None
    fine: NaturalConfig
    examples: int = 6_000
    search: int = 0
    learn_prior: bool = True


LONG = 30_000  # steps of rows that are compared with each other

# Both layers learned, and the widths with them: from a search for filters as they are drawn, or,
# on CIFAR, from a small start.
JOINT = Stochastic(20_000, 256, width_lr=0.005, rest=0.02, search=32)
JOINT_CIFAR = Stochastic(12_000, lr=1e-3, width_lr=2e-3, rest=0.0)
# Widths held where the search finds them.
HELD = replace(JOINT, width_lr=0.0, rest=0.0)
HELD_CIFAR = replace(JOINT_CIFAR, steps=9_000, width_lr=0.0, search=32)
# A better search: from widths of 0, the most helpful parameter first; then widths held, or learned
# on with the filters (followed).
BEST = replace(HELD, steps=40_000, batch_size=128, search=128, order="best")
BEST_CIFAR = replace(HELD_CIFAR, steps=12_000, search_examples=6_000, order="best")
# Widths by the bound on images that the filters have not seen, held.
CROSSED = replace(HELD, steps=LONG, search=0, crossed=Crossed())
CROSSED_CIFAR = replace(HELD_CIFAR, steps=12_000, search=0, crossed=Crossed())
TURNS = Crossed(draws=6)  # one width, from several starts
SHORT = {"2": 8_000, "3": 6_000}  # steps of the families other than affine, after a search

FULL = NaturalConfig(chunk=2000, samples=32, draws=8, batch_size=10**6, search=0).replace(rate=0.7)


SHARED = 250  # images that share their random transformations: few, so that there are many draws


def natural(sampling: str = "sobol", learn_prior: bool = True) -> Natural:
    """Gradients on a part of the examples, a line search there, the last layer anew on all."""
    chunk = SHARED if sampling == "random" else FULL.chunk
    full = FULL.replace(sampling=sampling, chunk=chunk)
    coarse = full.replace(steps=24, lr=0.3, head_only=6, schedule="constant", betas=(0.8, 0.95))
    fine = full.replace(steps=16, head_only=16)
    return Natural(coarse, fine, search=32, learn_prior=learn_prior)


def gradient() -> Natural:
    """Gradients alone, first on a part of the examples, then on all."""
    coarse = FULL.replace(steps=50, rate=0.5, lr=0.3, head_only=8)
    fine = FULL.replace(steps=10, rate=0.5, lr=0.15, head_only=2, fresh=False)
    return Natural(coarse, fine, examples=10_000)


def minibatch() -> Natural:
    """Many small steps, the last layer at every third: the slowest way."""
    fine = NaturalConfig(900, 1000, samples=64, lr=0.2, search=0).replace(head_every=3)
    return Natural(None, fine)


def fixed(sampling: str = "sobol", samples: int = 32, learn_prior: bool = True) -> Natural:
    """Full-batch steps for widths that stay: all examples from the start."""
    fine = FULL.replace(steps=16, head_only=16, sampling=sampling, samples=samples)
    return Natural(None, fine, learn_prior=learn_prior)


def fixed_anew(learn_prior: bool) -> Natural:
    """The same with the paper's sampling: 32 random transformations for every few images."""
    how = fixed("random", learn_prior=learn_prior)
    return replace(how, fine=how.fine.replace(chunk=SHARED))


def small_stages() -> Natural:
    """The search in small: less than a minute on a CPU."""
    coarse = FULL.replace(steps=16, samples=16, lr=0.3, draws=4, head_only=6)
    fine = coarse.replace(steps=16, head_only=16)
    return Natural(coarse, fine, 500, search=16)
