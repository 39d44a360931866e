"""The runs of this page on one GPU, in lanes: the most important first, as many as fit.

    python papers/invariant-vae/lanes.py corners --data DATA --out OUT --limit 400
    python papers/invariant-vae/lanes.py turned --data DATA --out OUT --limit 400

Each entry is a command line of ``run.py`` and the seconds that it is expected to take. One begins
only if it fits into what is left of the limit, judged by how long the others took.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import run

Entry = tuple[float, str]
WIDTHS = "--parts rotation --steps 1000 --added"
ABLATION = "--parts ablations --short 600 --views 5 --which"
NINE = "--alike --full-precision --symmetry-steps 12000 5000"
OWN = "--own --symmetry-steps 12000 10000"
SETUP = 20.0  # seconds for a symmetry model, and to set everything up
SCORED = {"InvVAE": 12.0}  # for the scores of a model; 3 for others
MS, THIRD_MS = 1.3, 0.7  # of a step; more, for a third convolution
FEW, HALF, MANY = 12_500, 25_000, 50_000
LONG = (20_000, 40_000, 80_000)  # steps of AugVAE with more hidden units


def nine(
    added: int,
    kind: str,
    size: int,
    seed: int = 0,
    *,
    steps: int = 0,
    third: bool = False,
    options: str = "",
    setup: bool = False,
) -> Entry:
    """A VAE of Figure 9, and how long it takes, with its symmetry model if ``setup``.

    Unless steps are given: 5,000 with 50,000 images, else 2,500, as VAEs learn images by heart
    (on images held out the better of both in every run that had both); AugVAE, which does not,
    has 20,000 and a third convolution.
    """
    third = third or kind == "AugVAE"
    steps = steps or (20_000 if kind == "AugVAE" else 5000 if size == MANY else 2500)
    seconds = (MS + THIRD_MS * third) * steps / 1000 + SCORED.get(kind, 3.0) + SETUP * setup
    words = f"--parts figure9 {NINE} --rotations {added} --sizes {size} --kinds {kind}"
    words += f" --vae-steps {steps} --first-seed {seed} {options}"
    return seconds, words + (" --channels 64 128 256" if third else "")


def invariant(added: int, seed: int = 0, sizes: Sequence[int] = (MANY, FEW, HALF)) -> list[Entry]:
    """InvVAE at one rotation; the first run makes the symmetry model."""
    return [nine(added, "InvVAE", n, seed, setup=not place) for place, n in enumerate(sizes)]


def again(rotations: Sequence[int], sizes: Sequence[int] = (MANY, FEW, HALF)) -> list[Entry]:
    """Further seeds of InvVAE."""
    cells = [(added, seed) for seed in (1, 2) for added in rotations]
    return [entry for cell in cells for entry in invariant(*cell, sizes)]


def corners() -> list[Entry]:
    """InvVAE and AugVAE at the rotations that goals are about, the first seed."""
    ends = (180, 0)
    lane = [entry for added in ends for entry in invariant(added, sizes=(MANY, FEW))]
    lane += [nine(added, "AugVAE", HALF) for added in ends]
    lane += [nine(added, "InvVAE", HALF) for added in ends]
    lane += [entry for added in ends for entry in invariant(added, 1, (MANY, FEW))]
    return lane + [nine(added, "AugVAE", size) for added in ends for size in (MANY, FEW)]


def between(added: int, end: int) -> list[Entry]:
    """A rotation between, the first seed; further seeds at an end.

    With 50,000 images AugVAE's symmetry model sees all that it learns from itself.
    """
    own = {"options": OWN, "setup": True}
    lane = [nine(end, "AugVAE", MANY, **own), *invariant(end, 2, (MANY, FEW)), *invariant(added)]
    lane += [nine(added, "AugVAE", FEW), nine(added, "AugVAE", MANY, **own)]
    lane.append(nine(added, "AugVAE", HALF))
    for seed in (1, 2):
        lane += [nine(end, "AugVAE", MANY, seed, **own), nine(end, "AugVAE", FEW, seed, setup=True)]
    return lane


def plain() -> list[Entry]:
    """What has no symmetry model: the VAE and the control."""
    ends = [(added, size) for size in (MANY, FEW) for added in (180, 0)]
    middle = [(added, HALF) for added in (180, 0)]
    rest = [(added, size) for size in (MANY, FEW, HALF) for added in (90, 45)]
    lane = [nine(*cell, 2) for cell in _of("VAE", ends)]
    lane += [nine(*cell) for cell in _of("fixed", [*middle, *rest])]
    lane += [nine(*cell, seed) for seed in (1, 2) for cell in _of("VAE", [*middle, *rest])]
    lane += [nine(*cell, seed) for seed in (0, 1) for cell in _of("VAE", ends)]
    lane += [nine(*cell) for cell in _of("VAE", [*middle, *rest])]
    return lane + [nine(*cell) for cell in _of("fixed", ends)]


def _of(kind: str, cells: Sequence[tuple[int, int]]) -> list[tuple[int, str, int]]:
    return [(added, kind, size) for added, size in cells]


def control() -> list[Entry]:
    """The control with AugVAE's first setting."""
    cells = [(added, size) for size in (MANY, HALF, FEW) for added in (180, 0, 90, 45)]
    return [nine(*cell, steps=20_000, third=True) for cell in _of("fixed", cells)]


def other_steps() -> list[Entry]:
    """The VAE with half and with twice the steps, where these are but one choice."""
    tried = [(MANY, 10_000), (MANY, 2500), (HALF, 5000)]
    ends = [(added, *cell) for cell in tried for added in (180, 0)]
    return [nine(added, "VAE", size, seed, steps=n) for seed in range(3) for added, size, n in ends]


def rates() -> list[Entry]:
    """AugVAE of 50,000 images with the paper's other rates, and with images planted anew.

    And the VAE with a third convolution.
    """
    six, nine_ = "--live --vae-lr 0.006", "--live --vae-lr 0.009"
    lane = [nine(added, "AugVAE", MANY, options=six, setup=True) for added in (180, 0)]
    lane.append(nine(180, "planted", MANY, steps=20_000, third=True, options=six))
    lane += [nine(added, "AugVAE", MANY, options=nine_) for added in (180, 0)]
    return lane + [nine(added, "VAE", MANY, third=True) for added in (180, 0)]


def wide(added: int, steps: Sequence[int], size: int = MANY, seed: int = 0) -> list[Entry]:
    """AugVAE with four times the hidden units; the first run makes the symmetry model.

    With 50,000 images that sees all that AugVAE learns from itself.
    """
    words = "--hidden 1024 " + (OWN if size == MANY else "")
    return [
        nine(added, "AugVAE", size, seed, steps=n, options=words, setup=not place)
        for place, n in enumerate(steps)
    ]


def same(added: int, steps: int, part: str = "same") -> Entry:
    """The joint model on the images of the VAEs."""
    return 4.0 * steps / 1000 + 8, f"--parts {part} --steps {steps} --added {added}"


def new_images() -> list[Entry]:
    """New images of all kinds of models, from the prior and from a density of codes."""
    lane: list[Entry] = []
    for seed in (0, 1):
        words = f"--parts samples --alike --sizes {MANY} --first-seed {seed} --kinds"
        vae = "--full-precision --symmetry-steps 12000 5000 --vae-steps 5000"
        lane += [(60, f"{words} InvVAE {vae} --least-noise 0.2"), (30, f"{words} VAE {vae}")]
        lane += [(20, f"{words} InvVAE {vae} --least-noise 0.01")]
        lane += [(30, f"{words} AugVAE {vae}"), (95, f"{words} joint --least-noise 0.2")]
        lane += [(95, f"{words} joint --least-noise 0.01")]
    return lane


LANES: dict[str, list[Entry]] = {
    "joint": [
        *((10, f"{WIDTHS} {added}") for added in (0, 180, 90, 45, 15)),
        (14, f"{ABLATION} conditional"),
        (14, f"{ABLATION} flexible"),
        (20, f"{ABLATION} invariance"),
        (10, "--parts affine --steps 1000 --added 45"),
    ],
    "joint-same": [
        same(0, 5000, "same-learned"),
        same(180, 5000, "same-learned"),
        same(0, 5000),
        same(180, 5000),
    ],
    "joint-turned": [same(180, 15_000, "same-learned"), same(180, 5000)],
    "joint-upright": [
        same(0, 15_000, "same-learned"),
        (30, "--parts affine --steps 5000 --added 45"),
        *(same(added, 5000, "same-learned") for added in (90, 45)),
    ],
    "alone": [(95, "--parts rotation --steps 15000 --base 1000 --added 45 --alone")],
    "corners": corners(),
    "turned": between(90, 180),
    "upright": between(45, 0),
    "plain": plain(),
    "rates": rates(),
    "samples": new_images(),
    "wide-180": wide(180, LONG),
    "wide-90": wide(90, (LONG[0], LONG[2])),
    "wide-45": wide(45, LONG[1:]),
    "wide-0": wide(0, LONG),
    **{f"wide-{added}-25k": wide(added, LONG[:1], HALF) for added in (0, 45, 90, 180)},
    **{f"wide-{a}-again-{s}": wide(a, LONG[2:], seed=s) for a in (0, 45, 90, 180) for s in (1, 2)},
    **{f"wide-0-shorter-{seed}": wide(0, LONG[1:2], seed=seed) for seed in (1, 2)},
    "invariant-again": again((180, 0), (HALF,)),
    "invariant-45-again": again((45,)),
    "invariant-90-again": again((90,)),
    "wide-others": [nine(added, "VAE", MANY, options="--hidden 1024") for added in (180, 0)],
    "control": control(),
    "steps": other_steps(),
}


def main() -> None:
    """Run the entries of a lane."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("lane", choices=LANES)
    parser.add_argument("--data", default=None, help="folder of the data sets")
    parser.add_argument("--out", required=True)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--pace", type=float, default=1.0, help="seconds that a planned one takes")
    arguments = parser.parse_args()
    start, pace = time.perf_counter(), arguments.pace
    where = ["--out", arguments.out] + (["--data", arguments.data] if arguments.data else [])
    for place, (planned, words) in enumerate(LANES[arguments.lane]):
        begun = time.perf_counter()
        left = arguments.limit - (begun - start)
        if pace * planned > left:
            run.joint.stamp(start, f"no time for {words}")
            continue
        try:
            run.main([*words.split(), *where])
        except Exception:  # the others are worth having
            traceback.print_exc()
        if place:  # the first one sets everything up
            pace = max(arguments.pace, (time.perf_counter() - begun) / planned)


if __name__ == "__main__":
    main()
