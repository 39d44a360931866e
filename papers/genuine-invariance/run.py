"""Moskalev et al. 2023, "On genuine invariance learning without weight-tying", reproduced.

    python papers/genuine-invariance/run.py --out out/genuine-invariance

writes results.json, figures.npz and figure1.png to figure5.png. ``--quick`` does all of it on small
digits in a minute. ``--table 1`` trains the rows of the paper's Table 1 as the paper does: its
learning rate, no running mean of the weights, and a fixed weight of the penalty, eight values of it
side by side; what the folder holds already is left out. ``--draw`` draws again from what a folder
holds.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))

from fitting import METHODS, WEIGHTS, Fit, Task, fit_together
from measuring import drift, pictures, proposition, table_row
from tasks import paper_task, quick_task

from symmetries._utils.provenance import provenance
from symmetries.training.atomic_files import write_atomic

TABLE = ("WT", "DA", "IR")
EXTRA = ("IR-free", "IR-random", "NLI-random", "NLI-centred", "DI-random")
PLAIN = ("WT-plain", "DA-plain", *(f"IR-nu-{nu:g}" for nu in WEIGHTS))
PARTS = ("table", "drift", "spectrum", "plain", "figures")
CHOSEN = {"r4": "IR-nu-10", "t3": "IR-nu-300"}  # on held-out images, among PLAIN


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run what the command line asks for; returns the results."""
    options = _parse(arguments)
    if options.draw:
        return _draw(options.out)
    device = torch.device(options.device)
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = False  # invariance to 1e-8 needs all digits
    options.out.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    results: dict[str, Any] = {
        "paper": "On genuine invariance learning without weight-tying (Moskalev et al. 2023)",
        "command": _command(arguments if arguments is not None else sys.argv[1:]),
        "data": "digits" if options.quick else "transforming-mnist",
        "settings": {k: v for k, v in vars(options).items() if isinstance(v, int | float | list)},
        "table": _known(options),
        "drift": {},
        "figures": {},
    }
    arrays: dict[str, Any] = {}
    for group in options.groups:
        rows = results["table"].setdefault(group, {})
        names = options.methods or _names(options.parts, group)
        todo = [name for name in names if name not in rows]
        if not todo:
            print(f"{group}: in the results", flush=True)
            continue
        task = quick_task(group, device) if options.quick else _paper(group, options, device)
        fits = _fit_all(task, group, todo, options)
        for name, fitted in fits.items():
            rows[name] = table_row(task, fitted, options.examples, options.ig_steps)
            _say(group, name, rows[name])
        if "figures" in options.parts:  # of the networks as published
            fits = dict(zip(TABLE, fits.values(), strict=True))
        if {"drift", "figures"} & {*options.parts}:
            results["drift"][group] = {
                name: drift(task, fits[name], options.drift_examples, options.ig_steps)
                for name in TABLE
                if name in fits
            }
        if group == options.groups[0] and set(TABLE) <= set(fits):
            arrays = pictures(task, fits, options.feature_examples, options.ig_steps)
            results["proposition_3_1"] = proposition(task)
        results["seconds"] = time.perf_counter() - begin
        here = {"threads": torch.get_num_threads(), "command": results["command"]}
        results["environment"] = provenance(device) | here
        _write(options.out, results, arrays)
    if {"drift", "figures"} & {*options.parts}:
        _draw(options.out)
    return results


def _command(arguments: list[str]) -> str:
    """What was asked for, without the places of one machine."""
    kept = [
        a
        for i, a in enumerate(arguments)
        if not {"--out", "--folder"} & {*arguments[max(i - 1, 0) : i + 1]}
    ]
    return " ".join(("run.py", *kept))


def _known(options: argparse.Namespace) -> dict[str, Any]:
    """Rows that the folder holds already, made with the same settings; figures need all of them."""
    file = options.out / "results.json"
    if {"drift", "spectrum", "figures"} & {*options.parts} or not file.exists():
        return {}
    found = json.loads(file.read_text())
    same = ("quick", "seeds", "steps", "batch_size", "check_every", "examples", "ig_steps")
    if any(found.get("settings", {}).get(name) != getattr(options, name) for name in same):
        raise SystemExit(f"{file} was made with other settings: choose another --out")
    rows: dict[str, Any] = found["table"]
    return rows


def _fit_all(
    task: Task, group: str, names: list[str], options: argparse.Namespace
) -> dict[str, Fit]:
    """Fits by name; penalised methods train side by side, with and without a running mean apart."""
    single = [[name] for name in names if METHODS[name].penalty is None]
    penalised = [
        [n for n in names if METHODS[n].penalty is not None and METHODS[n].averaged == averaged]
        for averaged in (True, False)
    ]
    fits: dict[str, Fit] = {}
    for together in single + [part for part in penalised if part]:
        found = fit_together(
            task,
            [METHODS[name] for name in together],
            options.seeds,
            steps=options.steps,
            batch_size=options.batch_size,
            check_every=options.check_every,
            progress=not options.quiet,
        )
        fits |= zip(together, found, strict=True)
        seconds = sum(one.seconds for one in found)
        print(f"{group} {', '.join(together)}: trained in {seconds:.0f} s", flush=True)
    return {name: fits[name] for name in names}


def _names(parts: list[str], group: str) -> tuple[str, ...]:
    """Methods that the parts of a run need."""
    if parts == ["figures"]:
        return ("WT-plain", "DA-plain", CHOSEN[group])
    names = () if parts == ["plain"] else TABLE
    names += EXTRA if "spectrum" in parts else ()
    return names + (PLAIN if "plain" in parts else ())


def _paper(group: str, options: argparse.Namespace, device: torch.device) -> Task:
    return paper_task(group, options.folder, device, bool({"drift", "figures"} & {*options.parts}))


def _say(group: str, name: str, row: dict[str, Any]) -> None:
    numbers = "  ".join(
        f"{measure} {row[measure]['mean']:.4g} ± {row[measure]['std']:.2g}"
        for measure in ("accuracy", "li", "di", "si", "sigma_max")
    )
    print(f"{group} {name:11s} {numbers}", flush=True)


def _write(out: Path, results: dict[str, Any], arrays: dict[str, Any]) -> None:
    write_atomic(out / "results.json", (json.dumps(results, indent=1) + "\n").encode())
    if arrays:
        np.savez_compressed(out / "figures.npz", **arrays)


def _draw(out: Path) -> dict[str, Any]:
    try:
        from figures import draw
    except ImportError as error:
        print(f"no figures drawn ({error}); draw them elsewhere with --draw", flush=True)
    else:
        for path in draw(out):
            print(f"wrote {path}", flush=True)
    loaded: dict[str, Any] = json.loads((out / "results.json").read_text())
    return loaded


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("out/genuine-invariance"))
    parser.add_argument("--folder", type=Path, help="data files; else $SYMMETRIES_DATA")
    parser.add_argument("--quick", action="store_true", help="small digits, a minute")
    parser.add_argument(
        "--table", type=int, choices=[1], help="Table 1 as published: --parts plain"
    )
    parser.add_argument("--draw", action="store_true", help="only draw what --out holds")
    parser.add_argument("--groups", nargs="+", default=["r4", "t3"], choices=["r4", "t3"])
    parser.add_argument("--parts", nargs="+", default=list(PARTS[:3]), choices=PARTS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="others than these parts'")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3])
    parser.add_argument("--steps", type=int, default=5860, help="300 epochs")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--check-every", type=int, default=100, help="steps between validations")
    parser.add_argument("--examples", type=int, default=2000, help="test images for LI, DI, SI")
    parser.add_argument("--drift-examples", type=int, default=500)
    parser.add_argument("--feature-examples", type=int, default=400)
    parser.add_argument("--ig-steps", type=int, default=50)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    quick = {
        "steps": 150,
        "batch_size": 64,
        "check_every": 30,
        "examples": 60,
        "drift_examples": 30,
        "feature_examples": 20,
        "ig_steps": 10,
        "seeds": [0, 1],
    }
    given = sys.argv[1:] if arguments is None else arguments
    if "--quick" in given:
        parser.set_defaults(**quick)
    options = parser.parse_args(arguments)
    if options.table:
        options.parts = ["plain"]
    return options


if __name__ == "__main__":
    main()
