"""What is trained for each table: runs that differ in numbers only, as one batched computation."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from crossed import GROUP
from trainings import (
    BEST,
    BEST_CIFAR,
    CROSSED,
    CROSSED_CIFAR,
    HELD,
    HELD_CIFAR,
    JOINT,
    JOINT_CIFAR,
    LONG,
    SHORT,
    TURNS,
    Natural,
    Stochastic,
    fixed,
    fixed_anew,
    gradient,
    minibatch,
    natural,
    small_stages,
)

ANGLES = (5, 45, 90, 135, 175)
BETWEEN = (30, 60, 75)  # more fixed widths of the ReLU network, for where its bound is best
ROTATED = ("mnist-rotated", "mnist-partially-rotated", "mnist")
MOVED = ("mnist-rotated", "mnist-translated", "mnist-scaled", "mnist")
CIFAR = tuple(name.replace("mnist", "cifar10") for name in MOVED)
QUICK = ("digits-rotated", "digits-partially-rotated", "digits")
FAMILIES = ("rotation", "translation", "scale", "affine")
PARTS = (
    "1",
    "random",
    "blurred",
    "long",
    "2",
    "3",
    "5",
    "6",
    "start",
    "ablation",
    "point",
    "augerino",
    "quick",
    "small",
)

# Prior variance of the last layer: learned, or the paper's. Its cos(.) with variance 1 is
# sqrt(2 / D) cos(.) with D / 2.
PRIORS = {"learned prior": True, "fixed prior": False}
PAPER_PRIOR = 512.0

# Widths in the group's own units that the families of Tables 2, 3, 6 and 7 start with.
SMALL = 0.1
BLUR = 0.1  # of the filters in half-images: "0.1 sigma" of the paper
FEW = 1000  # examples that 1,024 features fit at any width


@dataclass(frozen=True)
class Run:
    """One model: a set, a start, and whether its width is learned."""

    row: str
    set: str
    width: float | tuple[float, ...]
    learn: bool


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
    elif part == "random":
        for name, learned in PRIORS.items():
            prior = {"prior_variance": 50.0 if learned else PAPER_PRIOR}
            for tag, how in (("", natural("random", learned)), (", fixed", fixed_anew(learned))):
                runs = width_runs(ROTATED, ANGLES, learn=not tag)
                tag = name + tag
                yield Job("table1-random", "fourier", "rotation", runs, how, **prior, tag=tag)
    elif part == "blurred":
        learned = natural("random")
        for tag, how in (("learned prior", learned), ("learned prior, fixed", fixed_anew(True))):
            runs = width_runs(ROTATED, ANGLES, learn=how is learned)
            yield Job("table1-blur", "fourier", "rotation", runs, how, blur=BLUR, tag=tag)
        for family in FAMILIES:
            runs = family_runs(family, MOVED)
            yield Job("table6-blur", "fourier", family, runs, natural(), blur=BLUR, tag="families")
    elif part == "5":
        fixed_angles = tuple(sorted(ANGLES + BETWEEN))
        for tag, angles in (("learned", (0, *ANGLES[1:])), ("fixed", fixed_angles)):
            runs = width_runs(ROTATED, angles, tag == "learned")
            how = Stochastic()
            yield Job("table5", "relu", "rotation", runs, how, prior_variance=1.0, tag=tag)
        runs = width_runs(ROTATED, (0, *ANGLES[1:]), learn=True)
        how = Stochastic(width_lr=0.0, rest=0.0, crossed=TURNS)
        yield Job("table5-crossed", "relu", "rotation", runs, how, prior_variance=1.0, tag="turns")
    elif part == "long":
        runs = width_runs(ROTATED, (0, *ANGLES[1:]), learn=True)
        how = Stochastic(LONG)
        yield Job("table5-long", "relu", "rotation", runs, how, prior_variance=1.0, tag="learned")
        yield Job(
            "table2-long", "relu", "affine", crossed_runs(("none", *FAMILIES[:-1]), MOVED),
            replace(CROSSED, steps=LONG), prior_variance=1.0, tag="crossed families",
        )  # fmt: skip
        runs = width_runs(ROTATED, ANGLES, learn=False)
        yield Job("table5-long", "relu", "rotation", runs, how, prior_variance=1.0, tag="fixed")
    elif part == "6":
        for family in FAMILIES:
            yield Job("table6", "fourier", family, family_runs(family, MOVED), natural())
        runs = tuple(Run("none", s, 0.0, False) for s in MOVED)
        yield Job("table6-blur", "fourier", "rotation", runs, fixed(), blur=BLUR, tag="blur")
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
    elif part == "start":
        yield from untransformed()
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


def small(tag: str, runs: tuple[Run, ...], training: Natural) -> Job:
    """Table 1 in small: digits of 8 x 8 pixels, 64 features."""
    table = "quick" if tag == "quick" else "small"
    return Job(table, "fourier", "rotation", runs, training, 64, sigma=0.5, tag=tag)


def untransformed() -> Iterator[Job]:
    """Why CIFAR-10 without transformations is below the paper: one change at a time, then some.

    The paper does not say how features are scaled. With features over 32, the root of their
    number, its start and its prior (variances of 1) are those of outputs of about 1.
    """
    ours = Stochastic(SHORT["3"], samples=1, lr=1e-3, width_lr=0.0, rest=0.0)
    scaled, blurred, small = {"standardise": False}, {"blur": BLUR}, {"amplitude": 1 / 32}
    paper = replace(ours, scale=1.0, learn_prior=False)
    ways: dict[str, tuple[Stochastic, dict[str, Any]]] = {
        "ours": (ours, {}),
        "a start of 0.01 instead of 0.05": (replace(ours, scale=0.01), {}),
        "a start of 0.002": (replace(ours, scale=0.002), {}),
        "a start of 0.01, blurred": (replace(ours, scale=0.01), blurred),
        "a start of 0.002, blurred": (replace(ours, scale=0.002), blurred),
        "a point estimate": (replace(ours, posterior="point"), {}),
        "a start of 0.002, a third of the steps": (
            replace(ours, scale=0.002, steps=SHORT["3"] // 3), {},
        ),
        "filters blurred": (ours, blurred),
        "images in [0, 1]": (ours, scaled),
        "the paper's start": (replace(ours, scale=1.0), {}),
        "the paper's prior": (replace(ours, learn_prior=False), {}),
        "the paper's start and prior": (paper, {}),
        "a third of the steps": (replace(ours, steps=SHORT["3"] // 3), {}),
        "start, prior and blur of the paper": (paper, blurred),
        "the same, images in [0, 1]": (paper, scaled | blurred),
        "features over 32, start and prior of the paper": (paper, small),
        "the same, blurred": (paper, small | blurred),
        "the same, blurred, images in [0, 1]": (paper, small | blurred | scaled),
        "30,000 steps": (replace(ours, steps=LONG), {}),
        "features over 32, start, prior and blur, 30,000 steps": (
            replace(paper, steps=LONG), small | blurred,
        ),
    }  # fmt: skip
    runs = tuple(Run("none", s, 0.0, False) for s in CIFAR)
    for tag, (how, changed) in ways.items():
        rest = {"prior_variance": 1.0, "standardise": True} | changed
        yield Job("table3-none", "relu", "rotation", runs, how, **rest, tag=tag)


def ablation() -> Iterator[Job]:
    """Where the higher bound comes from: one change at a time, from the paper's settings to ours.

    Fixed widths.
    """
    runs = width_runs(("mnist-partially-rotated",), ANGLES[1:], learn=False)
    sgvb = Stochastic(6000, sampling="random", lr=1e-3, rest=0.0, learn_prior=False)
    steps = {
        "natural": (fixed("random", learn_prior=False), PAPER_PRIOR),
        "prior": (fixed("random"), 50.0),
        "sobol": (fixed("sobol"), 50.0),
        "sobol 64": (fixed("sobol", 64), 50.0),
        "blur": (fixed("sobol"), 50.0),
        "paper": (replace(sgvb, scale=PAPER_PRIOR**0.5), PAPER_PRIOR),
        "narrow start": (replace(sgvb, scale=1.0), PAPER_PRIOR),
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
