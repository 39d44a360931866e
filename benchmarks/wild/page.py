"""The page of the documentation about models from the package index, from stored results."""

import json
from pathlib import Path
from typing import Any

TEXT = """\
# Models as they are shipped

Models from the package index, audited as they are (`make wild`; not in CI, as it needs the index).
Inputs are drawn from a seed: lines and pages of text, tones, bytes; molecules are those of ASE.
They show what an audit says of real models, not how good these are at their tasks. Nothing of the
packages is in this repository. Intervals are of 95 %; numbers in the last column are notes below
the table.

## Files

**{done} of {files} ONNX files of {packages} packages are audited** ({names}), {converted} of them
with gradients, as they can be converted; the others (quantised operators, LSTM, If) by ONNX
Runtime, with every measure that needs none. For comparison, onnx2torch 1.5.15 converts 3 of these
files to networks that give what ONNX Runtime gives. A conversion of ours that differs from it on
inputs as they are, or moved, is never used. None of the packages' code is run.

{file_table}

## Networks, calculators and functions

These packages are imported, and their code runs. SevenNet-0 and CHGNet are calculators of ASE;
PESTO is a function of sounds, without the package's reader of files, which needs torchaudio; the
others are modules with random weights, where *adds most* names the layer that adds most to the
error. Newer wheels of torchvision than the one here do not import beside a CPU build of torch.

{model_table}

Errors of energies are the rounding of the models' own arithmetic: `benchmarks/wild/precision.py`
repeats them by a plain loop, in single and in double precision. Largest error over the molecules
and {rotations} rotations, in meV per atom:

{precision_table}

Molecules for CHGNet are in cells of 30 Å.

Details are in `benchmarks/wild/results.json`; seed 0.
"""


def page(found: dict[str, Any]) -> str:
    """The page of the documentation, from stored results."""
    files = [one for one in found["rows"] if "file" in one]
    models = [one for one in found["rows"] if "model" in one]
    precision = json.loads(Path(__file__).with_name("precision.json").read_text())
    names = dict.fromkeys(one["package"].split()[0] for one in files)
    return TEXT.format(
        done=sum(one["audited"] for one in files),
        files=len(files),
        packages=len(names),
        names=", ".join(names),
        converted=sum(one.get("gradients", False) for one in files),
        file_table="\n".join(_table(files, "file")),
        model_table="\n".join(_table(models, "model")),
        rotations=precision["rows"][0]["rotations"],
        precision_table="\n".join(_precision(precision)),
    )


def _precision(found: dict[str, Any]) -> list[str]:
    """Largest errors by model, precision and number of molecules."""
    lines = ["| model | bits | molecules | largest | mean |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {one['model']} | {one['bits']} | {one['molecules']} | {one['largest']:.2g} | "
        f"{one['mean']:.2g} |"
        for one in found["rows"]
    ]
    return [*lines, "", f"Commit {found['commit']}, {found['device']}, seed {found['seed']}."]


def _table(rows: list[dict[str, Any]], name: str) -> list[str]:
    """Rows of a table; notes that several rows share stand below it."""
    lines = [
        f"| package (licence) | {name} | question | found | notes |",
        "| --- | --- | --- | --- | --- |",
    ]
    common: dict[str, int] = {}
    for one in rows:
        units = one.get("units", {})
        measured = [
            f"{key.replace('_', ' ')} {value:.3g} ({one['intervals'][key][0]:.3g} to "
            f"{one['intervals'][key][1]:.3g}) {units.get(key, '')}".strip()
            for key, value in one.get("measures", {}).items()
        ]
        measured += [f"adds most: `{one['adds_most']}`"] if "adds_most" in one else []
        why = one.get("without_gradients")
        notes = [*one.get("notes", []), *([f"no gradients: {why}"] if why else [])]
        for note in notes:
            common.setdefault(note, len(common) + 1)
        cells = [f"{one['package']} ({one['licence']})", f"`{one[name]}`", one["question"]]
        cells += [", ".join(measured) or one.get("error", "")]
        cells += [", ".join(str(common[note]) for note in notes)]
        lines.append("| " + " | ".join(cells) + " |")
    where = sorted({(one["commit"], one["device"]) for one in rows if "commit" in one})
    lines += ["", *(f"{number}. {note}" for note, number in common.items())]
    return [*lines, "", "; ".join(f"Commit {name}, {device}" for name, device in where) + "."]
