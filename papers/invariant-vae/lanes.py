"""The runs of this page on one GPU, in lanes: the most important first, as many as fit.

    python papers/invariant-vae/lanes.py joint --data DATA --out OUT --limit 330
    python papers/invariant-vae/lanes.py figure9 --data DATA --out OUT --limit 330

Each entry is a command line of ``run.py`` and the seconds that it is expected to take. One begins
only if it fits into what is left of the limit, judged by how long the others took.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import run

Entry = tuple[float, str]
WIDTHS = "--parts rotation --steps 1500 --added"
NINE = "--parts figure9 --vae-steps 2500 --symmetry-steps 5000 2500"
LONG = "--parts figure9 --vae-steps 10000 --symmetry-steps 5000 2500"
LANES: dict[str, list[Entry]] = {
    "joint": [
        *((14, f"{WIDTHS} {added}") for added in (0, 180, 90, 45, 15)),
        (105, "--parts rotation --steps 15000 --base 1500 --added 45"),
        (20, "--parts ablations --short 1000 --views 5 --which conditional"),
        (20, "--parts ablations --short 1000 --views 5 --which flexible"),
        (30, "--parts ablations --short 1000 --views 5 --which invariance"),
        (15, "--parts affine --steps 1500 --added 45"),
        *((20, f"--parts learned-noise --steps 2500 --added {added}") for added in (0, 180)),
    ],
    "figure9": [
        (50, f"{NINE} --rotations 0 180 --sizes 12500 --kinds VAE AugVAE InvVAE"),
        (40, f"{NINE} --rotations 0 180 --sizes 50000 --kinds VAE AugVAE InvVAE"),
        (75, f"{LONG} --rotations 0 180 --sizes 50000 --kinds VAE AugVAE"),
        (50, f"{NINE} --rotations 45 90 --sizes 12500 --kinds VAE AugVAE InvVAE"),
        (40, f"{NINE} --rotations 45 90 --sizes 50000 --kinds VAE AugVAE InvVAE"),
        (80, f"{NINE} --rotations 0 180 45 90 --sizes 25000 --kinds VAE AugVAE InvVAE"),
        (40, f"{NINE} --rotations 0 180 --sizes 12500 50000 --kinds fixed"),
    ],
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
    for planned, words in LANES[arguments.lane]:
        begun = time.perf_counter()
        left = arguments.limit - (begun - start)
        if pace * planned > left:
            run.joint.stamp(start, f"no time for {words}")
            continue
        run.main([*words.split(), *where])
        pace = max(arguments.pace, (time.perf_counter() - begun) / planned)


if __name__ == "__main__":
    main()
