"""Tables 1 to 7 of van der Ouderaa and van der Wilk 2022, regenerated.

Runs of a table that differ in numbers only (a set, a start, a fixed width) are trained together,
as one batched computation per seed and family of transformations. Results are written after every
batch, so that an interrupted run keeps what it has.

    python papers/invariant-weights/run.py --table 1 --data DATA --out results.json
    python papers/invariant-weights/run.py --quick
"""

import argparse
import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from symmetries.data import ImageSet, load
from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_weights import NaturalConfig, evaluate, fit_natural
from symmetries.nn.invariant_model import InvariantModel, shallow_model

HERE = Path(__file__).parent
ANGLES = (5, 45, 90, 135, 175)
ROTATED = ("mnist-rotated", "mnist-partially-rotated", "mnist")
MOVED = ("mnist-rotated", "mnist-translated", "mnist-scaled", "mnist")
CIFAR = tuple(name.replace("mnist", "cifar10") for name in MOVED)
QUICK = ("digits-rotated", "digits-partially-rotated", "digits")
FAMILIES = ("rotation", "translation", "scale", "affine")

# Widths in the group's own units that the families of Tables 2, 3, 6 and 7 start with.
SMALL = 0.1


@dataclass(frozen=True)
class Run:
    """One model: a set, a start, and whether its width is learned."""

    row: str
    set: str
    width: float
    learn: bool


@dataclass(frozen=True)
class Job:
    """Runs that are trained as one, for each seed."""

    table: str
    kind: str
    family: str
    runs: tuple[Run, ...]
    features: int
    training: NaturalConfig
    seeds: tuple[int, ...]
    sigma: float = 0.3
    prior_variance: float = 50.0


def training(kind: str, sampling: str) -> NaturalConfig:
    """How each kind of network is trained; see the README for how these were found."""
    if kind == "fourier":
        samples = 32 if sampling == "random" else 64
        return NaturalConfig(
            steps=900,
            batch_size=1000,
            samples=samples,
            sampling=sampling,
            lr=0.2,
            head_every=3,
        )
    return NaturalConfig(
        steps=3000,
        batch_size=500,
        sampling=sampling,
        lr=0.05,
        head_every=4,
        memory=2.0,
        body_warmup=300,
    )


def width_runs(sets: tuple[str, ...], starts: tuple[int, ...]) -> tuple[Run, ...]:
    """Fixed widths and learned ones, from several starts, on every set (Tables 1, 4, 5)."""
    fixed = [Run(f"fixed {a}", s, math.radians(a), False) for s in sets for a in ANGLES]
    learned = [Run(f"learned from {a}", s, math.radians(a), True) for s in sets for a in starts]
    return tuple(fixed + learned)


def jobs(table: int, seeds: tuple[int, ...], sampling: str) -> Iterator[Job]:
    """What has to be trained for a table."""
    kind = "fourier" if table in (1, 4, 6) else "relu"
    prior = 50.0 if kind == "fourier" else 1.0
    config = training(kind, sampling)
    tight = "" if sampling == "sobol" else f"-{sampling}"
    if table in (1, 4, 5):
        name = ("table5" if table == 5 else "table1") + tight
        starts = (0, *ANGLES[1:]) if table == 5 else ANGLES
        runs = width_runs(ROTATED, starts)
        yield Job(name, kind, "rotation", runs, 1024, config, seeds, prior_variance=prior)
        return
    name = {2: "table2", 3: "table3", 6: "table6", 7: "table2"}[table] + tight
    sets = CIFAR if table == 3 else MOVED
    for family in FAMILIES:
        runs = tuple(Run(family, s, SMALL, True) for s in sets)
        if family == "rotation":
            runs += tuple(Run("none", s, 0.0, False) for s in sets)
        yield Job(name, kind, family, runs, 1024, config, seeds, prior_variance=prior)


def quick_jobs() -> Iterator[Job]:
    """Table 1 in small: digits of 8 x 8 pixels, 128 features, less than a minute on a CPU."""
    runs = tuple(Run("learned from 11", s, 0.2, True) for s in QUICK)
    config = NaturalConfig(steps=150, batch_size=400, samples=16, lr=0.2, draws=4)
    yield Job("quick", "fourier", "rotation", runs, 128, config, (0,), 0.5)


def build(job: Job, shape: tuple[int, int, int], seed: int) -> InvariantModel:
    """The models of a job, as one."""
    return shallow_model(
        shape,
        10,
        Affine2(job.family),
        half_widths=[run.width for run in job.runs],
        learn=[run.learn for run in job.runs],
        features=job.features,
        kind=job.kind,
        sigma=job.sigma,
        prior_variance=job.prior_variance,
        bias=False,
        seed=seed,
        side="weights" if job.kind == "fourier" else "auto",
    )


def train_job(job: Job, folder: str | None, device: torch.device, seed: int) -> dict[str, object]:
    """Train and evaluate the runs of a job with one seed."""
    names = tuple(dict.fromkeys(run.set for run in job.runs))
    sets = [names.index(run.set) for run in job.runs]
    trains, tests = ([load(n, part, folder) for n in names] for part in ("train", "test"))
    images = [part.images.to(device) for part in trains]
    labels = labels_of(trains).to(device)
    model = build(job, tuple(images[0].shape[1:]), seed).to(device)
    config = replace(job.training, seed=seed)
    started = clock(device)
    looks = fit_natural(model, images, labels, config, sets=sets, on_step=progress(config.steps))
    seconds = clock(device) - started
    # The bound as it was trained (same S, same sampling); accuracy with an even spread of T.
    bound = {"samples": config.samples, "sampling": config.sampling, "draws": 16}
    fit = evaluate(model, images, labels, sets=sets, chunk=500, **bound).log_likelihood
    test = ([t.images for t in tests], labels_of(tests))
    score = evaluate(model, *test, sets=sets, chunk=500, samples=64).score
    kl = model.head.kl() / len(labels)
    side = max(images[0].shape[-2:])
    runs = []
    for i, run in enumerate(job.runs):
        width = model.half_width[i].tolist()
        shown = [p.display(w, side) for p, w in zip(model.group.parameters, width, strict=True)]
        runs.append(
            asdict(run)
            | {
                "seed": seed,
                "half_width": dict(zip(model.group.names, width, strict=True)),
                "shown": {
                    n: f"{v:.1f} {u}" for n, (v, u) in zip(model.group.names, shown, strict=True)
                },
                "elbo": float(fit[i] - kl[i]),
                "log_likelihood": float(fit[i]),
                "kl": float(kl[i]),
                "accuracy": 100 * float(score[i]),
                "prior_variance": float(model.head.prior_variance[i]),
            }
        )
        print(
            f"{job.table} seed {seed} {run.set:26} {run.row:18} ELBO {runs[-1]['elbo']:8.3f} "
            f"accuracy {runs[-1]['accuracy']:6.2f} {runs[-1]['shown']}",
            flush=True,
        )
    rate = 1000 * seconds / config.steps / len(runs)
    print(
        f"{job.table} {job.family} seed {seed}: {seconds:.0f} s, {rate:.3f} ms per run and step",
        flush=True,
    )
    return {
        "family": job.family,
        "kind": job.kind,
        "seed": seed,
        "features": job.features,
        "sigma": job.sigma,
        "training": asdict(config),
        "seconds": seconds,
        "ms_per_run_and_step": rate,
        "runs": runs,
        "widths": looks,
    }


def labels_of(sets: list[ImageSet]) -> torch.Tensor:
    """The labels that all sets share: they are the same images, moved."""
    labels = sets[0].labels
    if labels is None or not all(torch.equal(labels, other.labels) for other in sets):
        sys.exit("the sets of a job must have the same labels in the same order")
    return labels


def clock(device: torch.device) -> float:
    """Seconds, after the device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def progress(steps: int) -> object:
    """A line now and then."""
    started = time.perf_counter()

    def show(step: int, fit: torch.Tensor) -> None:
        if step % max(1, steps // 8) == 0:
            seconds = time.perf_counter() - started
            print(f"  step {step}/{steps}, {seconds:.0f} s, fit {fit.mean():.3f}", flush=True)

    return show


def hardware(device: torch.device) -> dict[str, str]:
    """What the numbers were made with."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor()
    return {
        "device": name or device.type,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit that is checked out, as far as it can be told."""
    command = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def summary(results: dict[str, list[dict]], expected: dict) -> str:
    """Our numbers beside the paper's: means over seeds."""
    lines = []
    for table, batches in results.items():
        runs = [run for batch in batches for run in batch["runs"]]
        rows = dict.fromkeys((run["row"], run["set"]) for run in runs)
        paper = expected.get(table.partition("-")[0], {"sets": [], "rows": {}})
        rows_of = (
            paper["rows"] | expected["table4"]["rows"]
            if table.startswith("table1")
            else paper["rows"]
        )
        lines += [
            f"\n{table}",
            f"{'row':18} {'set':26} {'ELBO':>8} {'paper':>7} {'acc.':>7} {'paper':>7}  widths",
        ]
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
                f"{row:18} {name:26} {elbo:8.3f} {theirs[0]:7.2f} "
                f"{accuracy:7.2f} {theirs[1]:7.2f}  {widths}"
            )
    return "\n".join(lines)


def main() -> None:
    """Read the arguments, train, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--table", type=int, nargs="+", default=[1], choices=range(1, 8))
    parser.add_argument("--quick", action="store_true", help="digits, on a CPU, under a minute")
    parser.add_argument("--data", help="folder of the data files; else $SYMMETRIES_DATA")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="results, as JSON (default: beside this file)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--sampling", default="sobol", choices=("random", "sobol", "grid"))
    parser.add_argument("--steps", type=int, help="other than the default, for a trial")
    parser.add_argument("--minutes", type=float, help="start no batch that would end later")
    args = parser.parse_args()
    device = torch.device(args.device)
    torch.set_float32_matmul_precision("high")
    out = args.out or HERE / ("quick.json" if args.quick else "results.json")
    expected = json.loads((HERE / "expected.json").read_text())
    todo = list(quick_jobs()) if args.quick else []
    if not args.quick:
        todo = [
            job for table in args.table for job in jobs(table, tuple(args.seeds), args.sampling)
        ]
        todo = [job for job in todo if job.family in args.families]
    began, longest = time.perf_counter(), 0.0
    results: dict[str, list[dict]] = {}
    if out.exists() and not args.quick:
        results = json.loads(out.read_text())["tables"]
    for job in todo:
        if args.steps:
            job = replace(job, training=replace(job.training, steps=args.steps))
        kept = [
            b
            for b in results.get(job.table, [])
            if (b["family"], b["seed"]) not in {(job.family, s) for s in job.seeds}
        ]
        results[job.table] = kept
        for seed in job.seeds:
            now = time.perf_counter() - began
            if args.minutes and now + longest > 60 * args.minutes:
                print(f"no time left for {job.table} {job.family} seed {seed}", flush=True)
                continue
            results[job.table].append(train_job(job, args.data, device, seed))
            longest = max(longest, time.perf_counter() - began - now)
            content = {"commit": commit(), "hardware": hardware(device), "tables": results}
            out.write_text(json.dumps(content, indent=1) + "\n")
    print(summary(results, expected))


if __name__ == "__main__":
    main()
