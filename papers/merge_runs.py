"""Take what ``gpu_runs.py`` brought back into the papers' results.

    python papers/merge_runs.py OUT

adds every row of OUT/runs.json that a paper's results.json does not hold yet, with the commit that
the runs were told and their command without the places of one machine, and the curves of paper 0
from OUT/arrays.zip. Then ``python papers/tables.py`` writes the tables.
"""

import io
import json
import re
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from compact import compact, rounded

HERE = Path(__file__).parent
PLACES = re.compile(r" --(out|data|folder|known|minutes|budget|limit) \S+")
Row = dict[str, Any]


def clean(made: Row, commit: str) -> Row:
    """Provenance with the commit of the run, and a command that others can use."""
    return made | {"commit": commit, "command": PLACES.sub("", made["command"])}


def added(known: list[Row], new: Sequence[Row], names: Sequence[str]) -> int:
    """Append the rows that are not there yet, judged by the entries with these names."""
    count = 0
    for row in new:
        key = [row.get(name) for name in names]
        if all([other.get(name) for name in names] != key for other in known):
            known.append(row)
            count += 1
    return count


def invariant_weights(results: Row, found: Row, commit: str) -> int:
    """Batches of finished parts; those in the results stay."""
    count, names = 0, ("family", "kind", "tag", "seed")
    for table, batches in found["tables"].items():
        known = results["tables"].setdefault(table, [])
        keys = [[batch.get(name) for name in names] for batch in known]
        for batch in batches:
            if batch.get("unfinished") or [batch.get(name) for name in names] in keys:
                continue
            hardware = clean(batch["hardware"], commit)
            hardware.pop("commit")
            known.append(batch | {"commit": commit, "hardware": hardware})
            count += 1
        if not known:
            del results["tables"][table]
    return count


def genuine_invariance(results: Row, found: Row, commit: str) -> int:
    """Table 1 as published: all of it, or what was there; drift of the same networks."""
    if "plain" in results:
        plain, drifts = results["plain"], found["drift"]
        if "drift" in plain or not drifts:
            return 0
        plain["drift"] = drifts
        plain["drift_environment"] = clean(found["environment"], commit)
        return len(drifts)
    what = "the paper's learning rate, no running mean of the weights, the moment of best "
    what += "validation accuracy; weights of the penalty fixed"
    kept = {name: found[name] for name in ("command", "settings", "seconds", "table")}
    results["plain"] = {"what": what, **kept, "environment": clean(found["environment"], commit)}
    return sum(map(len, found["table"].values()))


def relaxed_equivariance(results: Row, found: Row, commit: str) -> int:
    """Rows of cifar.py, or of run.py; "lanes" is how many runs shared the GPU."""
    names = ("data", "rotations", "mode", "omega", "penalty", "augment", "epochs", "seed")
    names = (*names, "validation", "recipe", "experiment", "relaxed", "rate")
    rows = [clean(row, commit) for row in found["rows"]]
    short = bool(rows) and "experiment" in rows[0]
    return added(results["rows"] if short else results["cifar"]["rows"], rows, names)


def symmetry_model(results: Row, found: Row, commit: str) -> int:
    """Ablations; runs of the published objective; those of ours that figures were drawn from."""
    places: dict[str, list[Row]] = {"ablations": [], "published": [], "pictured": []}
    for row in found["runs"]:
        own = "published" if row["variant"].startswith("paper") else "pictured"
        place = "ablations" if "--ablations" in row["made"]["command"] else own
        places[place].append(row | {"made": clean(row["made"], commit)})
    names = ("task", "added", "seed", "variant")
    return sum(
        added(results.setdefault(place, []), rows, names) for place, rows in places.items() if rows
    )


def invariant_vae(results: Row, found: Row, commit: str) -> int:
    """Runs of the joint model, those with the paper's networks apart."""
    rows = [row | {"made": clean(row["made"], commit)} for row in found["rows"]]
    own = [row for row in rows if "--paper" not in row["made"]["command"]]
    paper = [row for row in rows if row not in own]
    names = (
        "part",
        "steps",
        "added",
        "seed",
        "kind",
        "size",
        "hidden",
        "channels",
        "which",
        "side",
    )
    count = added(results["rows"], own, names)
    return count + (added(results.setdefault("paper_networks", []), paper, names) if paper else 0)


PAPERS: dict[str, Callable[[Row, Row, str], int]] = {
    "invariant-weights": invariant_weights,
    "genuine-invariance": genuine_invariance,
    "relaxed-equivariance": relaxed_equivariance,
    "symmetry-model": symmetry_model,
    "invariant-vae": invariant_vae,
}


def merge(runs: Row, folder: Path = HERE) -> dict[str, int]:
    """Merge the files of all jobs; returns how many rows each paper has got."""
    if not runs["commit"]:
        raise SystemExit(
            "the runs do not say their commit: set SYMMETRIES_COMMIT when you run them"
        )
    counts: dict[str, int] = {}
    for job in runs["jobs"]:
        paper = job["script"].partition("/")[0]
        for name, found in job["files"].items():
            if found is None:
                print(f"{job['name']}: {name} is half written, and left out")
                continue
            file = folder / paper / "results.json"
            results = json.loads(file.read_text())
            if "rows" in found:
                found["rows"] = [row | {"lanes": runs["lanes"]} for row in found["rows"]]
            count = PAPERS[paper](results, found, runs["commit"])
            counts[paper] = counts.get(paper, 0) + count
            if count:
                file.write_text(compact(rounded(results)) + "\n")
    return counts


def merge_arrays(archive: Path, folder: Path = HERE) -> int:
    """Add the arrays of paper 0 that are not there yet; returns how many were."""
    file = folder / "invariant-weights" / "results-arrays.npz"
    known, count = dict(np.load(file)), 0
    with zipfile.ZipFile(archive) as found:
        for name in (n for n in found.namelist() if n.endswith("/results-arrays.npz")):
            new = np.load(io.BytesIO(found.read(name)))
            added = {key: new[key] for key in new.files if key not in known}
            known, count = known | added, count + len(added)
    if count:
        np.savez_compressed(file, **known)
    return count


if __name__ == "__main__":
    out = Path(sys.argv[1])
    for paper, count in merge(json.loads((out / "runs.json").read_text())).items():
        print(f"{paper}: {count} rows added")
    if (out / "arrays.zip").exists():
        print(f"{merge_arrays(out / 'arrays.zip')} arrays added")
