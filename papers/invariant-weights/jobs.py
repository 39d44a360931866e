"""What is trained for each table: runs that differ in numbers only, as one batched computation."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from crossed import GROUP, Crossed

from symmetries.learners.invariant_weights import NaturalConfig

ANGLES = (5, 45, 90, 135, 175)
BETWEEN = (30, 60, 75)  # more fixed widths of the ReLU network, for where its bound is best
ROTATED = ("mnist-rotated", "mnist-partially-rotated", "mnist")
MOVED = ("mnist-rotated", "mnist-translated", "mnist-scaled", "mnist")
CIFAR = tuple(name.replace("mnist", "cifar10") for name in MOVED)
QUICK = ("digits-rotated", "digits-partially-rotated", "digits")
FAMILIES = ("rotation", "translation", "scale", "affine")
PARTS = ("1", "2", "3", "5", "6", "ablation", "point", "augerino", "quick", "small")

# Widths in the group's own units that the families of Tables 2, 3, 6 and 7 start with.
SMALL = 0.1
FEW = 1000  # examples that 1,024 features fit at any width


@dataclass(frozen=True)
class Run:
    """One model: a set, a start, and whether its width is learned."""

    row: str
    set: str
    width: float | tuple[float, ...]
    learn: bool


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


@dataclass(frozen=True)
class Job:
    """Runs that are trained as one, for each seed."""

    table: str
    kind: str
    family: str
    runs: tuple[Run, ...]
    training: Natural | Stochastic
    features: int = 1024
    sigma: float = 0.3
    amplitude: float = 1.0
    prior_variance: float = 50.0
    blur: float = 0.0  # of the filters, in half-image units
    standardise: bool = False  # images to mean 0 and variance 1, over the whole set
    examples: int | None = None  # of the training set; None is all
    tag: str = ""


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
CROSSED = replace(HELD, steps=30_000, search=0, crossed=Crossed())
CROSSED_CIFAR = replace(HELD_CIFAR, steps=12_000, search=0, crossed=Crossed())
TURNS = Crossed(draws=4)  # one width, from several starts
SHORT = {"2": 8_000, "3": 6_000}  # steps of the families other than affine, after a search

FULL = NaturalConfig(chunk=2000, samples=32, draws=8, rate=0.7, batch_size=10**6, search=0)


def natural() -> Natural:
    """Gradients on a part of the examples, a line search there, the last layer anew on all."""
    coarse = replace(FULL, steps=24, lr=0.3, warmup=6, schedule="constant", betas=(0.8, 0.95))
    return Natural(coarse, replace(FULL, steps=16, warmup=16), search=32)


def gradient() -> Natural:
    """Gradients alone, first on a part of the examples, then on all."""
    coarse = replace(FULL, steps=50, rate=0.5, lr=0.3, warmup=8)
    fine = replace(FULL, steps=10, rate=0.5, lr=0.15, warmup=2, fresh=False)
    return Natural(coarse, fine, examples=10_000)


def minibatch() -> Natural:
    """Many small steps, the last layer at every third: the slowest way."""
    fine = NaturalConfig(900, 1000, samples=64, lr=0.2, head_every=3, search=0)
    return Natural(None, fine)


def fixed(sampling: str = "sobol", samples: int = 32, learn_prior: bool = True) -> Natural:
    """Full-batch steps for widths that stay: all examples from the start."""
    fine = replace(FULL, steps=16, warmup=16, sampling=sampling, samples=samples)
    return Natural(None, fine, learn_prior=learn_prior)


def width_runs(sets: tuple[str, ...], angles: tuple[int, ...], learn: bool) -> tuple[Run, ...]:
    """Fixed widths, or learned ones from several starts, on every set (Tables 1, 4, 5)."""
    name = "learned from" if learn else "fixed"
    return tuple(Run(f"{name} {a}", s, math.radians(a), learn) for s in sets for a in angles)


def family_runs(family: str, sets: tuple[str, ...]) -> tuple[Run, ...]:
    """A learned family on every set; beside rotation the network without any (Tables 2, 3, 6)."""
    runs = tuple(Run(family, s, SMALL, True) for s in sets)
    if family == "rotation":
        runs += tuple(Run("none", s, 0.0, False) for s in sets)
    return runs


def crossed_runs(rows: tuple[str, ...], sets: tuple[str, ...]) -> tuple[Run, ...]:
    """Rows of Tables 2 and 3 whose widths are searched before the run."""
    return tuple(Run(row, s, (0.0,) * GROUP.dim, False) for row in rows for s in sets)


def planted_runs(sets: tuple[str, ...], side: int) -> tuple[Run, ...]:
    """The widths that the sets were made with, for an affine box; none on the regular set.

    A control that knows the answer: what the network can do, whoever finds the widths.
    """
    shift, factor = 2 * 8 / side, math.log(2)
    none = (0.0,) * 6
    truth = {
        "rotated": (0.0, 0.0, math.pi, 0.0, 0.0, 0.0),
        "translated": (shift, shift, 0.0, 0.0, 0.0, 0.0),
        "scaled": (0.0, 0.0, 0.0, factor, factor, 0.0),
    }
    return tuple(Run("planted", s, truth.get(s.rpartition("-")[2], none), False) for s in sets)


def jobs(part: str) -> Iterator[Job]:
    """What has to be trained for a part of the paper: the number of a table, or a name."""
    if part == "1":
        how = {"learned": natural(), "fixed": fixed()}
        for tag, training in how.items():
            runs = width_runs(ROTATED, ANGLES, tag != "fixed")
            yield Job("table1", "fourier", "rotation", runs, training, tag=tag)
        runs = width_runs(ROTATED, ANGLES, True)
        yield Job("table1-gradient", "fourier", "rotation", runs, gradient(), tag="gradient")
        runs = width_runs(ROTATED, ANGLES, False) + width_runs(ROTATED, ANGLES, True)
        yield Job("table1-minibatch", "fourier", "rotation", runs, minibatch(), tag="minibatch")
    elif part == "5":
        fixed_angles = tuple(sorted(ANGLES + BETWEEN))
        for tag, angles in (("learned", (0, *ANGLES[1:])), ("fixed", fixed_angles)):
            runs = width_runs(ROTATED, angles, tag == "learned")
            how = Stochastic()
            yield Job("table5", "relu", "rotation", runs, how, prior_variance=1.0, tag=tag)
        runs = width_runs(ROTATED, (0, *ANGLES[1:]), learn=True)
        how = Stochastic(width_lr=0.0, rest=0.0, crossed=TURNS)
        yield Job("table5-crossed", "relu", "rotation", runs, how, prior_variance=1.0, tag="turns")
    elif part == "6":
        for family in FAMILIES:
            yield Job("table6", "fourier", family, family_runs(family, MOVED), natural())
        runs = tuple(Run("none", s, 0.0, False) for s in MOVED)
        yield Job("table6-blur", "fourier", "rotation", runs, fixed(), blur=0.1, tag="blur")
    elif part in ("2", "3"):
        cifar = part == "3"
        sets = CIFAR if cifar else MOVED
        ways = {
            "": ("joint", JOINT_CIFAR if cifar else JOINT),
            "-held": ("held", HELD_CIFAR if cifar else HELD),
            "-searched": ("searched", BEST_CIFAR if cifar else BEST),
            "-followed": ("followed", replace(BEST_CIFAR if cifar else BEST, width_lr=2e-3)),
            "-planted": ("planted", replace(BEST_CIFAR if cifar else BEST, search=0)),
        }
        for name, (tag, how) in ways.items():
            planted = tag == "planted"
            for family in ("affine",) if planted else FAMILIES:
                runs = planted_runs(sets, 32 if cifar else 28)
                short = tag == "searched" and family != "affine"
                yield Job(
                    f"table{part}{name}", "relu", family,
                    runs if planted else family_runs(family, sets),
                    replace(how, steps=SHORT[part]) if short else how,
                    prior_variance=1.0, standardise=cifar, tag=tag,
                )  # fmt: skip
        how = CROSSED_CIFAR if cifar else CROSSED
        for tag, rows in (("crossed", ("affine",)), ("crossed families", ("none", *FAMILIES[:-1]))):
            yield Job(
                f"table{part}-crossed", "relu", "affine", crossed_runs(rows, sets),
                how if tag == "crossed" else replace(how, steps=SHORT[part]),
                prior_variance=1.0, standardise=cifar, tag=tag,
            )  # fmt: skip
    elif part == "ablation":
        yield from ablation()
    elif part == "point":
        yield from point()
    elif part == "augerino":
        how = Stochastic(3000, samples=1, sampling="random", posterior="point", augerino=0.01)
        for kind, amplitude in (("fourier", 512**0.5), ("relu", 1.0)):
            runs = width_runs(ROTATED, (5, 90), learn=True)
            yield Job(
                "augerino", kind, "rotation", runs, how,
                amplitude=amplitude, prior_variance=1.0, tag="augerino",
            )  # fmt: skip
    elif part == "quick":
        runs = tuple(Run("learned from 11", s, 0.2, True) for s in QUICK)
        yield small("quick", runs, small_stages())
    elif part == "small":
        starts = width_runs(QUICK, (5, 90, 175), learn=True)
        yield small("searched", starts, small_stages())
        stages = replace(small_stages(), coarse=None)
        yield small("fixed", width_runs(QUICK, ANGLES, learn=False), stages)


def small_stages() -> Natural:
    """The search in small: less than a minute on a CPU."""
    coarse = replace(FULL, steps=16, samples=16, lr=0.3, draws=4, warmup=6)
    fine = replace(coarse, steps=16, warmup=16)
    return Natural(coarse, fine, 500, search=16)


def small(tag: str, runs: tuple[Run, ...], training: Natural) -> Job:
    """Table 1 in small: digits of 8 x 8 pixels, 64 features."""
    table = "quick" if tag == "quick" else "small"
    return Job(table, "fourier", "rotation", runs, training, 64, sigma=0.5, tag=tag)


def ablation() -> Iterator[Job]:
    """Where the higher bound comes from: one change at a time, from the paper's settings to ours.

    Fixed widths. The paper's cos(.) with prior variance 1 is sqrt(2 / D) cos(.) with D / 2.
    """
    runs = width_runs(("mnist-partially-rotated",), ANGLES[1:], learn=False)
    paper = 512.0
    sgvb = Stochastic(6000, sampling="random", lr=1e-3, rest=0.0, learn_prior=False)
    steps = {
        "natural": (fixed("random", learn_prior=False), paper),
        "prior": (fixed("random"), 50.0),
        "sobol": (fixed("sobol"), 50.0),
        "sobol 64": (fixed("sobol", 64), 50.0),
        "blur": (fixed("sobol"), 50.0),
        "paper": (replace(sgvb, scale=paper**0.5), paper),
        "narrow start": (replace(sgvb, scale=1.0), paper),
    }
    for tag, (training, prior) in steps.items():
        blur = 0.1 if tag == "blur" else 0.0
        yield Job(
            "ablation", "fourier", "rotation", runs, training, prior_variance=prior, blur=blur,
            tag=tag,
        )  # fmt: skip


def point() -> Iterator[Job]:
    """Section 4.1: the same network with and without the integral over its last layer.

    "paper": the rates of section 4 for everything, random transformations, no rest. "few": on so
    few examples that the network can fit them at any width. "fixed": how well a point estimate
    fits the training set at some widths, with many examples and with few. "long": until the
    network with both layers learned fits all examples, too.
    """
    runs = width_runs(("mnist-rotated",), (5, 45, 90), learn=True)
    paper = Stochastic(6000, sampling="random", lr=1e-3, width_lr=1e-3, rest=0.0)
    for kind, amplitude in (("fourier", 512**0.5), ("relu", 1.0)):
        for posterior in ("point", "full"):
            for tag, training, examples in (
                (posterior, Stochastic(3000), None),
                (f"{posterior} paper", paper, None),
                (f"{posterior} few", Stochastic(3000), FEW),
            ):
                yield Job(
                    "point", kind, "rotation", runs, replace(training, posterior=posterior),
                    amplitude=amplitude, prior_variance=1.0, examples=examples, tag=tag,
                )  # fmt: skip
        fixed_runs = width_runs(("mnist-rotated",), (5, 90, 175), learn=False)
        how = replace(paper, steps=3000, posterior="point")
        trials = [("point fixed", None, fixed_runs, how), ("point fixed few", FEW, fixed_runs, how)]
        if kind == "relu":
            long = replace(how, steps=20_000)
            trials += [
                ("point long", None, runs, long),
                ("point fixed long", None, fixed_runs, long),
                ("full long", None, runs, replace(long, posterior="full")),
                ("full fixed long", None, fixed_runs, replace(long, posterior="full")),
                ("point long ours", None, runs, replace(Stochastic(20_000), posterior="point")),
                ("full long ours", None, runs, Stochastic(20_000)),
            ]
        for tag, examples, those, training in trials:
            yield Job(
                "point", kind, "rotation", those, training,
                amplitude=amplitude, prior_variance=1.0, examples=examples, tag=tag,
            )  # fmt: skip
