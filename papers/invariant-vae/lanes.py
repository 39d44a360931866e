"""The runs of this page on one GPU, in lanes: the most important first, as many as fit.

    python papers/invariant-vae/lanes.py joint --data DATA --out OUT --limit 330
    python papers/invariant-vae/lanes.py figure9 --data DATA --out OUT --limit 330

Each entry is a command line of ``run.py`` and the seconds that it is expected to take. One begins
only if it fits into what is left of the limit, judged by how long the others took. BEST stands for
the start whose bound on training images that were held out is higher, the mean over planted ranges.
"""

import argparse
import json
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
        *((14, f"{WIDTHS} {added} --alike 0.3") for added in (0, 180, 90)),
        *((14, f"{WIDTHS} {added} --alike 0") for added in (0, 180, 90, 45)),
        (14, f"{WIDTHS} 45 --alike 0.3"),
        (14, f"{WIDTHS} 15 --alike BEST"),
        (105, "--parts rotation --steps 15000 --base 1500 --added 45 --alike BEST"),
        (20, "--parts ablations --short 1000 --views 5 --alike BEST --which conditional"),
        (20, "--parts ablations --short 1000 --views 5 --alike BEST --which flexible"),
        (30, "--parts ablations --short 1000 --views 5 --alike BEST --which invariance"),
        (15, "--parts affine --steps 1500 --added 45 --alike BEST"),
        *(
            (20, f"--parts learned-noise --steps 2500 --added {added} --alike BEST")
            for added in (0, 180)
        ),
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


def best_start(folder: Path) -> str:
    """The ``--alike`` of the better start, among ranges that both have been run on."""
    file = folder / "results.json"
    rows = json.loads(file.read_text())["rows"] if file.exists() else []
    found: dict[str, dict[float, float]] = {"alike": {}, "own": {}}
    for row in rows:
        if row["part"] == "rotation" and row["steps"] < 15_000:
            found[row["start"]][row["added"]] = row["bound_held_out"]
    both = found["alike"].keys() & found["own"].keys()
    gain = sum(found["alike"][added] - found["own"][added] for added in both)
    return "0.3" if gain >= 0 else "0"


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
        words = words.replace("BEST", best_start(Path(arguments.out)))
        run.main([*words.split(), *where])
        pace = max(arguments.pace, (time.perf_counter() - begun) / planned)


if __name__ == "__main__":
    main()
