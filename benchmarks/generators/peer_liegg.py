"""LieGG's own code beside `generators`, on the same networks for O(5).

Needs a checkout of https://github.com/amoskalev/liegg (MIT licence), which is run, not copied. Both
read the same trained networks (``o5.py``) at the same 10,000 inputs. LieGG gives singular values
and, for each singular vector, its bias; it says neither how many of them are symmetries nor what
the group is.

Run with: python -m benchmarks.generators.peer_liegg CHECKOUT
"""

import argparse
import importlib.util
import time
from pathlib import Path

import torch
from benchmarks.generators.o5 import EPSILON, bias, trained
from benchmarks.generators.records import Clock, record

import symmetries
from symmetries.lie import search

FIRST = 400  # seeds that chose nothing


def main() -> None:
    """Run both and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("liegg", given.checkout / "src" / "liegg.py")
    liegg = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(liegg)
    clock, rows = Clock(), []
    for seed in range(FIRST, FIRST + given.seeds):
        model, x, _ = trained(seed)
        begun = time.process_time()
        matrix = liegg.polarization_matrix_1(model, x.clone())
        values, biases, _ = liegg.symmetry_metrics(matrix)
        theirs = time.process_time() - begun
        begun = time.process_time()
        raw = search(model, x, "linear", vectors=2)
        mine = bias(raw.matrices(raw.spectrum().theta[:10]))
        plain = time.process_time() - begun
        begun = time.process_time()
        found = symmetries.generators(
            x, model=model, fields="linear", vectors=2, epsilon=EPSILON, seed=seed
        )
        whole = time.process_time() - begun
        shown = torch.tensor([part.matrix for part in found.generators]).reshape(-1, 6, 6)
        largest = float(bias(shown).max()) if len(shown) else None
        ten = biases[-10:].detach()
        rows.append(
            {
                "seed": seed,
                "LieGG, bias of the best": float(biases[-1]),
                "LieGG, mean bias of the ten best": float(ten.mean()),
                "LieGG, smallest singular value": float(values[-1]),
                "LieGG, processor seconds": round(theirs, 3),
                "here, bias of the best before rounding": float(mine[0]),
                "here, mean bias of the ten before rounding": float(mine.mean()),
                "here, largest bias of the basis shown": largest,
                "here, answer": found.answer,
                "here, processor seconds without certificates": round(plain, 3),
                "here, processor seconds": round(whole, 3),
            }
        )
    summary: dict[str, object] = {"networks": len(rows)}
    for key in rows[0]:
        if key not in ("seed", "here, answer"):
            known = [row[key] for row in rows if row[key] is not None]
            summary[f"{key}, mean"] = float(torch.tensor(known).mean())
    summary["here, named so(5)"] = sum(row["here, answer"] == "so(5)" for row in rows)
    settings = {"epsilon": EPSILON, "seeds": f"{FIRST} to {FIRST + given.seeds - 1}"}
    record("peer_liegg", summary, rows, clock, settings)


if __name__ == "__main__":
    main()
