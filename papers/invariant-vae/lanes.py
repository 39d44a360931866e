"""The runs of this page on one GPU, in lanes: the most important first, as many as fit.

    python papers/invariant-vae/lanes.py first --data DATA --out OUT --limit 400
    python papers/invariant-vae/lanes.py second --data DATA --out OUT --limit 400

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
NINE = "--parts figure9 --full-precision --vae-steps 2500 --symmetry-steps 3000 1500"
MIDDLE = "--parts figure9 --full-precision --vae-steps 5000 --symmetry-steps 3000 1500"
LONG = "--parts figure9 --full-precision --vae-steps 10000 --symmetry-steps 3000 1500"
THREE = "--kinds VAE AugVAE InvVAE"
CLOSED = "--kinds InvVAE-similarities"
LANES: dict[str, list[Entry]] = {
    "first": [
        *((10, f"{WIDTHS} {added}") for added in (0, 180, 90, 45, 15)),
        (14, f"{ABLATION} conditional"),
        (14, f"{ABLATION} flexible"),
        (20, f"{ABLATION} invariance"),
        (27, f"{NINE} --rotations 90 --sizes 12500 {THREE}"),
        (18, f"{NINE} --rotations 90 --sizes 50000 {THREE}"),
        (10, "--parts affine --steps 1000 --added 45"),
        (14, "--parts learned-noise --steps 1500 --added 0"),
        (14, "--parts learned-noise --steps 1500 --added 180"),
        (18, f"{NINE} --rotations 90 --sizes 25000 {THREE}"),
    ],
    "second": [
        *((27, f"{NINE} --rotations {added} --sizes 12500 {THREE}") for added in (180, 0)),
        *((18, f"{NINE} --rotations {added} --sizes 50000 {THREE}") for added in (180, 0)),
        *((15, f"{LONG} --rotations {added} --sizes 50000 --kinds VAE") for added in (180, 0)),
        *((27, f"{LONG} --rotations {added} --sizes 50000 --kinds AugVAE") for added in (180, 0)),
        *((18, f"{NINE} --rotations {added} --sizes 25000 {THREE}") for added in (180, 0)),
        *((6, f"{NINE} --rotations {added} --sizes 12500 --kinds fixed") for added in (180, 0)),
        *((20, f"{NINE} --rotations {added} --sizes 12500 {CLOSED}") for added in (180, 0)),
        *((6, f"{NINE} --rotations {added} --sizes 50000 --kinds fixed") for added in (180, 0)),
    ],
    "third": [
        (24, f"{NINE} --rotations 0 --sizes 12500 50000 --kinds InvVAE"),
        (24, f"{NINE} --rotations 180 --sizes 12500 50000 --kinds InvVAE"),
        (27, f"{LONG} --rotations 0 --sizes 50000 --kinds AugVAE"),
        (22, f"{MIDDLE} --rotations 0 --sizes 12500 --kinds VAE AugVAE"),
        (22, f"{MIDDLE} --rotations 180 --sizes 12500 --kinds VAE AugVAE"),
        (15, f"{NINE} --rotations 0 --sizes 25000 {THREE}"),
        (6, f"{NINE} --rotations 180 --sizes 25000 --kinds InvVAE"),
        (10, f"{NINE} --rotations 0 180 --sizes 12500 --kinds fixed"),
        (27, f"{NINE} --rotations 90 --sizes 50000 {THREE}"),
        (20, f"{NINE} --rotations 90 --sizes 25000 {THREE}"),
        (6, f"{NINE} --rotations 90 --sizes 12500 --kinds InvVAE"),
        (10, f"{NINE} --rotations 0 180 --sizes 50000 --kinds fixed"),
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
