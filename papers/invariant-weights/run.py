"""Tables 1 to 7 of van der Ouderaa and van der Wilk 2022, and what stands beside them.

Runs of a table that differ in numbers only (a set, a start, a fixed width) are trained together,
as one batched computation per seed and family of transformations. Results are written after every
batch, so that an interrupted run keeps what it has; a batch that is there already is not repeated
without ``--again``.

    python papers/invariant-weights/run.py --table 1 --data DATA --seeds 0 1 2   # and Table 4
    python papers/invariant-weights/run.py --table 2 3 5 6                       # and Table 7
    python papers/invariant-weights/run.py --part crossed continued --seeds 0 1  # beside Table 5
    python papers/invariant-weights/run.py --part random samples identified-finer --seeds 0 1 2
    python papers/invariant-weights/run.py --part long --seeds 0 1 2   # Tables 2, 5: 30,000 steps
    python papers/invariant-weights/run.py --part blurred --seeds 0 1 2   # Tables 1, 4 and 6
    python papers/invariant-weights/run.py --part ablation point augerino small sgpr deeper toy
    python papers/invariant-weights/run.py --quick    # digits, on a CPU, under a minute
    python papers/invariant-weights/run.py --merge RESULTS.json   # made on another machine
    python papers/invariant-weights/run.py --draw     # the figures, from the results
"""

import argparse
import json
import math
import re
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from building import KEY, curves_of
from compact import compact, rounded
from continued import continued
from deeper import deeper, sparse_gp
from edges import edges
from fitting import train_job
from jobs import FAMILIES, PARTS, Job, jobs
from sampling import EXACT, best_by_samples, identified
from toy import toy
from trainings import Stochastic
from turns import fixed_widths

from symmetries._utils.provenance import provenance
from symmetries.training.atomic_files import write_atomic

HERE = Path(__file__).parent
EXTRA = {
    "crossed": fixed_widths,
    "continued": continued,
    "samples": best_by_samples,
    "identified-finer": identified,
    "identified-exact": partial(identified, samples=EXACT),
    "edges": edges,
    "deeper": deeper,
    "sgpr": sparse_gp,
    "toy": toy,
}


def summary(results: dict[str, list[dict]], expected: dict) -> str:
    """Our numbers beside the paper's: means over seeds."""
    lines = []
    for table, batches in results.items():
        if not table.startswith("table"):
            continue
        runs = [run for batch in batches for run in batch["runs"]]
        rows = dict.fromkeys((run["row"], run["set"]) for run in runs)
        paper = expected[table.partition("-")[0]]
        more = expected["table4"]["rows"] if table.startswith("table1") else {}
        rows_of = paper["rows"] | more
        head = f"{'row':18} {'set':24} {'ELBO':>8} {'paper':>7} {'acc.':>7} {'paper':>7}  widths"
        lines += [f"\n{table}", head]
        for row, name in rows:
            mine = [run for run in runs if (run["row"], run["set"]) == (row, name)]
            elbo, accuracy = (sum(r[key] for r in mine) / len(mine) for key in ("elbo", "accuracy"))
            said = rows_of.get(row, {})
            at = paper["sets"].index(name) if name in paper["sets"] else None
            theirs = [
                said[k][at] if at is not None and k in said else math.nan
                for k in ("elbo", "accuracy")
            ]
            widths = "; ".join(", ".join(r["shown"].values()) for r in mine)
            lines.append(
                f"{row:18} {name:24} {elbo:8.3f} {theirs[0]:7.2f} "
                f"{accuracy:7.2f} {theirs[1]:7.2f}  {widths}"
            )
    return "\n".join(lines)


def shortened(job: Job, steps: int, examples: int | None, features: int | None) -> Job:
    """A job with fewer steps, examples and features, for a trial."""
    job = replace(job, examples=examples, features=features or job.features)
    how = job.training
    if isinstance(how, Stochastic):
        few = examples or 3 * steps
        crossed = how.crossed and replace(
            how.crossed, steps=steps, features=job.features, seen=few // 2, unseen=few // 2,
            samples=2, rounds=2,
        )  # fmt: skip
        return replace(job, training=replace(how, steps=steps, crossed=crossed))
    coarse, fine = (c and c.replace(steps=steps, head_only=1) for c in (how.coarse, how.fine))
    return replace(job, training=replace(how, coarse=coarse, fine=fine))


class Store:
    """Results on disk: plain numbers as JSON, arrays and curves for the figures beside them."""

    def __init__(self, path: Path, device: torch.device) -> None:
        self.path = path
        made = provenance(device)
        made["command"] = re.sub(r" --(out|data) \S+", "", made["command"])  # of one machine
        self.head = {"commit": made.pop("commit"), "hardware": made}
        self.tables: dict[str, list[dict]] = {}
        self.arrays: dict[str, np.ndarray] = {}
        if path.exists():
            self.tables = json.loads(path.read_text())["tables"]
        if self.array_path.exists():
            self.arrays = dict(np.load(self.array_path))

    @property
    def array_path(self) -> Path:
        """Where the arrays are."""
        return self.path.with_name(self.path.stem + "-arrays.npz")

    def add(self, table: str, batch: dict) -> None:
        """Put a batch in the place of the one that it repeats, and write."""
        self.arrays |= {f"{table}/{name}": a for name, a in batch.pop("arrays", {}).items()}
        if np.ndim(batch.get("widths", 0)) == 2:
            self.arrays[curves_of(table, batch)] = np.float32(batch.pop("widths"))
        self._put(table, batch | self.head)
        self._write(self.head)

    def merge(self, other: "Store") -> None:
        """Take over what was made elsewhere, and write."""
        for table, batches in other.tables.items():
            for batch in batches:
                self._put(table, batch)
        self.arrays |= other.arrays
        kept = json.loads(self.path.read_text())
        self._write({name: kept[name] for name in ("commit", "hardware")})

    def has(self, table: str, **named: object) -> bool:
        """Whether there are finished batches with these entries, which is then said."""
        batches = self.tables.get(table, [])
        mine = [b for b in batches if all(b.get(k) == v for k, v in named.items())]
        found = bool(mine) and not any(b.get("unfinished") for b in mine)
        if found:
            words = ", ".join(f"{k} {v}" for k, v in named.items() if v != "")
            print(f"{table}, {words}: in the results; --again repeats it", flush=True)
        return found

    def finish(self, table: str, seed: int) -> None:
        """Note that a part that has several batches has all of them, and write."""
        for batch in self.tables.get(table, []):
            if batch["seed"] == seed:
                batch.pop("unfinished", None)
        self._write(self.head)

    def _put(self, table: str, batch: dict) -> None:
        def key(b: dict) -> tuple:
            return tuple(b.get(k) for k in KEY)

        kept = [b for b in self.tables.get(table, []) if key(b) != key(batch)]
        self.tables[table] = [*kept, batch]

    def _write(self, head: dict) -> None:
        content = {**head, "tables": self.tables}
        write_atomic(self.path, (compact(rounded(content)) + "\n").encode())
        if self.arrays:
            np.savez_compressed(self.array_path, **self.arrays)


def main() -> None:
    """Read the arguments, train, write."""
    form = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--table", type=int, nargs="+", default=[], choices=range(1, 8))
    names = ("random", "blurred", "long", "start", "ablation", "point", "augerino", "small", *EXTRA)
    parser.add_argument("--part", nargs="+", default=[], choices=names, help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="digits, on a CPU, under a minute")
    parser.add_argument("--draw", action="store_true", help="draw the figures")
    parser.add_argument("--data", help="folder of the data files; else $SYMMETRIES_DATA")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="results, as JSON (default: beside this file)")
    parser.add_argument("--merge", type=Path, help="results of another machine, to take over")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--tags", nargs="+", help="only these batches: learned, fixed, ...")
    parser.add_argument("--steps", type=int, help="other than the default, for a trial")
    parser.add_argument("--examples", type=int, help="with --steps: only the first so many")
    parser.add_argument("--features", type=int, help="with --steps: fewer hidden units")
    parser.add_argument("--again", action="store_true", help="repeat what is in the results")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin nothing later")
    args = parser.parse_args()
    device = torch.device(args.device)
    torch.set_float32_matmul_precision("high")
    same = {"4": "1", "7": "2"}  # tables with the same runs
    parts = [same.get(str(number), str(number)) for number in args.table] + args.part
    parts = ["quick"] if args.quick else list(dict.fromkeys(parts))
    if not parts and not args.draw and not args.merge:
        parser.error("name a --table or a --part, or --quick, --merge or --draw")
    store = Store(args.out or HERE / ("quick.json" if args.quick else "results.json"), device)
    if args.merge:
        store.merge(Store(args.merge, device))
    began = time.perf_counter()
    for part in parts:
        todo = list(jobs(part)) if part in PARTS else []
        todo = [job for job in todo if job.family in args.families]
        todo = [job for job in todo if not args.tags or job.tag in args.tags]
        for seed in args.seeds:
            if part in EXTRA and not args.again and store.has(part, seed=seed):
                continue
            if part in EXTRA and time.perf_counter() - began > 60 * args.minutes:
                print(f"no time left for {part}, seed {seed}", flush=True)
            elif part in EXTRA:
                for batch in EXTRA[part](args.data, device, seed, args.steps):
                    store.add(part, batch | {"unfinished": True})
                store.finish(part, seed)
            for job in todo:
                named = {k: seed if k == "seed" else getattr(job, k) for k in KEY}
                if not args.again and store.has(job.table, **named):
                    continue
                if time.perf_counter() - began > 60 * args.minutes:
                    print(f"no time left for {job.table} {job.tag}, seed {seed}", flush=True)
                    continue
                if args.steps:
                    job = shortened(job, args.steps, args.examples, args.features)
                store.add(job.table, train_job(job, args.data, device, seed))
    expected = json.loads((HERE / "expected.json").read_text())
    print(summary(store.tables, expected))
    if args.draw:
        from figures import draw

        for path in draw(store.tables, store.arrays, store.path.parent / "figures"):
            print(f"drew {path}")


if __name__ == "__main__":
    main()
