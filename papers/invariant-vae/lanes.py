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
NINE = "--parts figure9 --full-precision --symmetry-steps 8000 4000"
SETUP = 12.0  # seconds for a symmetry model
SCORED = 3.0  # for the scores of a model
MS = {"VAE": 1.3, "fixed": 1.4, "InvVAE": 1.3, "AugVAE": 2.0}  # of a step
THIRD_MS = 0.7  # more, for a third convolution
FEW, HALF, MANY = 12_500, 25_000, 50_000


def nine(
    added: int,
    kinds: str,
    sizes: tuple[int, ...],
    steps: int,
    *,
    third: bool = False,
    seed: int = 0,
) -> Entry:
    """VAEs of Figure 9, and how long they take (the symmetry model, if any, is there already)."""
    each = [(MS[kind] + THIRD_MS * third) * steps / 1000 + SCORED for kind in kinds.split()]
    words = f"{NINE} --rotations {added} --sizes {' '.join(map(str, sizes))} --kinds {kinds}"
    words += f" --vae-steps {steps} --first-seed {seed}"
    return len(sizes) * sum(each), words + (" --channels 64 128 256" if third else "")


def corner(added: int, seed: int = 0) -> list[Entry]:
    """A rotation that goals are about, the most important first."""
    seconds, first = nine(added, "InvVAE VAE", (FEW, MANY), 5000, seed=seed)
    return [
        (SETUP + seconds, first),
        nine(added, "AugVAE", (MANY,), 20_000, third=True, seed=seed),
        nine(added, "AugVAE", (FEW,), 10_000, third=True, seed=seed),
        nine(added, "VAE InvVAE", (MANY,), 10_000, seed=seed),
        nine(added, "VAE InvVAE", (HALF,), 5000, seed=seed),
        nine(added, "AugVAE", (HALF,), 10_000, third=True, seed=seed),
        nine(added, "fixed", (FEW, MANY), 5000, seed=seed),
    ]


def between(added: int) -> list[Entry]:
    """A rotation between these."""
    seconds, first = nine(added, "InvVAE VAE", (FEW, MANY), 5000)
    return [
        (SETUP + seconds, first),
        nine(added, "AugVAE", (FEW, MANY), 10_000, third=True),
        nine(added, "InvVAE VAE", (HALF,), 5000),
        nine(added, "AugVAE", (HALF,), 10_000, third=True),
    ]


def alike() -> list[Entry]:
    """Upright digits as smooth as turned ones; most images first."""
    seconds, first = nine(0, "InvVAE VAE", (MANY,), 5000)
    few = nine(0, "InvVAE VAE", (FEW,), 5000)
    return [(SETUP + seconds, first), few, nine(0, "AugVAE", (MANY,), 20_000, third=True)]


def more(added: int, other: int) -> list[Entry]:
    """A rotation between, and other seeds."""
    first, *rest = between(other)
    again, *later = corner(added, 1)
    return [first, again, *rest, *later, *corner(added, 2)]


LANES: dict[str, list[Entry]] = {
    "joint": [
        *((10, f"{WIDTHS} {added}") for added in (0, 180, 90, 45, 15)),
        (14, f"{ABLATION} conditional"),
        (14, f"{ABLATION} flexible"),
        (20, f"{ABLATION} invariance"),
        (10, "--parts affine --steps 1000 --added 45"),
    ],
    "alone": [(95, "--parts rotation --steps 15000 --added 45 --alone")],
    "alike": [(seconds, f"{words} --alike") for seconds, words in alike()],
    "turned": corner(180),
    "upright": corner(0),
    "turned-more": more(180, 90),
    "upright-more": more(0, 45),
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
