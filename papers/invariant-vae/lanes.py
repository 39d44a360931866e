"""The runs of this page on one GPU, in lanes: the most important first, as many as fit.

    python papers/invariant-vae/lanes.py turned --data DATA --out OUT --limit 400
    python papers/invariant-vae/lanes.py upright --data DATA --out OUT --limit 400

Each entry is a command line of ``run.py`` and the seconds that it is expected to take. One begins
only if it fits into what is left of the limit, judged by how long the others took.
"""

import argparse
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import run

Entry = tuple[float, str]
WIDTHS = "--parts rotation --steps 1000 --added"
ABLATION = "--parts ablations --short 600 --views 5 --which"
NINE = "--alike --full-precision --symmetry-steps 12000 5000"
SETUP = 20.0  # seconds for a symmetry model, and to set everything up
SCORED = 3.0  # for the scores of a model
MS, THIRD_MS = 1.3, 0.7  # of a step; more, for a third convolution
FEW, HALF, MANY = 12_500, 25_000, 50_000
THREE = "VAE InvVAE AugVAE"


def nine(
    added: int,
    kinds: str,
    sizes: tuple[int, ...],
    steps: int,
    *,
    third: bool = False,
    seed: int = 0,
    part: str = "figure9",
    lr: float = 3e-3,
    half: bool = False,
) -> Entry:
    """VAEs of Figure 9, and how long they take (the symmetry model, if any, is there already)."""
    each = (MS + THIRD_MS * third) * steps / 1000 + SCORED
    words = f"--parts {part} {NINE} --rotations {added} --sizes {' '.join(map(str, sizes))}"
    words += f" --kinds {kinds} --vae-steps {steps} --first-seed {seed} --vae-lr {lr:g}"
    words = words.replace(" --full-precision", "") if half else words
    seconds = len(sizes) * len(kinds.split()) * each
    return seconds, words + (" --channels 64 128 256" if third else "")


def corner(added: int, seed: int = 0) -> list[Entry]:
    """A rotation that goals are about, the most important first.

    VAE and InvVAE have the better of 2,500 and 5,000 steps on images held out (with 50,000 images
    more of them were better in every run before). AugVAE, which does not learn images by heart, has
    20,000 and a third convolution.
    """
    seconds, first = nine(added, "InvVAE VAE", (MANY, FEW), 5000, seed=seed)
    return [
        (SETUP + seconds, first),
        nine(added, "AugVAE", (MANY,), 20_000, third=True, seed=seed),
        nine(added, "VAE InvVAE", (FEW,), 2500, seed=seed),
        nine(added, "AugVAE", (FEW,), 20_000, third=True, seed=seed),
    ]


def middle(added: int) -> list[Entry]:
    """25,000 images."""
    return [
        nine(added, "InvVAE VAE", (HALF,), 5000),
        nine(added, "VAE InvVAE", (HALF,), 2500),
        nine(added, "AugVAE", (HALF,), 20_000, third=True),
    ]


def control(added: int) -> list[Entry]:
    """Fixed augmentation; and AugVAE for twice as long, if there is time."""
    longer = nine(added, "AugVAE", (MANY,), 40_000, third=True)
    return [nine(added, "fixed", (FEW, MANY), 5000), longer]


def more(added: int, between: int) -> list[Entry]:
    """A second seed and a rotation between, in turns; then 25,000 images and a third seed."""
    pairs = zip(corner(added, 1), corner(between), strict=True)
    return [*(entry for pair in pairs for entry in pair), *middle(between), *corner(added, 2)]


def again(seed: int) -> list[Entry]:
    """Another seed of what goals are about; new images; VAEs of 25,000 images."""
    lane: list[Entry] = []
    for added in (180, 0):
        seconds, first = nine(added, "InvVAE VAE", (MANY,), 5000, seed=seed)
        few = nine(added, "InvVAE VAE", (FEW,), 2500, seed=seed)
        lane += [(SETUP + seconds, first), few]
    lane += [nine(added, "VAE", (HALF,), 2500) for added in (0, 180)]
    lane += [nine(added, "VAE", (FEW, HALF), 2500) for added in (90, 45)]
    for added in (0, 180):
        lane.append(nine(added, "AugVAE", (HALF,), 20_000, third=True, seed=seed))
    return lane


def same(added: int, steps: int, part: str = "same") -> Entry:
    """The joint model on the images of the VAEs."""
    return 4.0 * steps / 1000 + 8, f"--parts {part} --steps {steps} --added {added}"


def framed() -> list[Entry]:
    """InvVAE of the first seed at both corners, and the control, alone on the GPU."""
    lane: list[Entry] = []
    for added in (180, 0):
        seconds, words = nine(added, "InvVAE", (MANY,), 5000)
        lane.append((12 + seconds, words))
    lane += [nine(added, "InvVAE", (FEW,), 2500) for added in (180, 0)]
    lane += [nine(added, "fixed", (FEW,), 2500) for added in (180, 0)]
    return lane


def rates() -> list[Entry]:
    """AugVAE of 50,000 images with the paper's other rates, and with images planted anew."""
    lane: list[Entry] = []
    for added in (180, 0):
        seconds, words = nine(added, "AugVAE", (MANY,), 20_000, third=True, lr=6e-3)
        lane.append((SETUP + seconds, words))
    lane.append(nine(180, "planted", (MANY,), 20_000, third=True, lr=6e-3))
    lane += [nine(added, "AugVAE", (MANY,), 20_000, third=True, lr=9e-3) for added in (180, 0)]
    return lane


def beside() -> list[Entry]:
    """What has no symmetry model: VAEs of 50,000 images, the control, third seeds."""
    lane = [nine(added, "VAE", (MANY,), 5000, third=True) for added in (180, 0)]
    lane.append(nine(0, "VAE", (MANY,), 5000, third=True, half=True))
    lane += [nine(added, "VAE", (MANY,), 5000) for added in (90, 45)]
    for added in (0, 180):
        lane += [nine(added, "fixed", (MANY,), 5000), nine(added, "fixed", (FEW,), 2500)]
    for added in (180, 0):
        lane += [
            nine(added, "VAE", (MANY,), 5000, seed=2),
            nine(added, "VAE", (FEW,), 2500, seed=2),
        ]
    return lane


def new_images() -> list[Entry]:
    """New images of all kinds of models, from the prior and from a density of codes."""
    lane: list[Entry] = []
    for seed in (0, 1):
        words = f"--parts samples --alike --sizes {MANY} --first-seed {seed} --kinds"
        vae = "--full-precision --symmetry-steps 12000 5000 --vae-steps 5000"
        lane += [(40, f"{words} VAE {vae}"), (95, f"{words} joint --least-noise 0.2")]
        lane += [(60, f"{words} InvVAE {vae}"), (45, f"{words} AugVAE {vae}")]
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
        (100, "--parts affine --steps 15000 --added 45"),
        *(same(added, 5000, "same-learned") for added in (90, 45)),
    ],
    "alone": [(95, "--parts rotation --steps 15000 --base 1000 --added 45 --alone")],
    "turned": [*corner(180), *middle(180), *control(180)],
    "upright": [*corner(0), *middle(0), *control(0)],
    "turned-more": more(180, 90),
    "upright-more": more(0, 45),
    "again": again(1),
    "framed": framed(),
    "samples": new_images(),
    "rates": rates(),
    "beside": beside(),
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
