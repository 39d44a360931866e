"""Every fused operation against its oracle in float64: ``make gpu``.

On a GPU the compiled kernels run, in several processes at once because compiling takes longest, and
what was seen is written as JSON with commit and device. It needs torch, triton and the checkout
alone::

    PYTHONPATH=src python tests/ops/gpu.py --out gpu.json

Elsewhere the same cases run on a processor, in Triton's interpreter or, for the warps in CUDA C, as
threads under a sanitizer of g++ (``address`` or ``thread``)::

    TRITON_INTERPRET=1 python tests/ops/gpu.py --operations spline gelu_norm
    TRITON_INTERPRET=1 python tests/ops/gpu.py --operations warp --emulate address

On a GPU a memory checker wants one process::

    compute-sanitizer --error-exitcode 9 python tests/ops/gpu.py --operations warp --workers 0
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from fused_cases import IN_CUDA_C, PARTS, Case, run_case

from symmetries import ops
from symmetries._utils.provenance import provenance, source_digest, versions

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
LONG = ("warp", "group_filters", "positional_features")  # are begun first
LIMIT_SECONDS = 300  # of one process
Row = dict[str, Any]


def count_with_tensors() -> None:
    """Let the interpreter loop from one number of a kernel to another, which numpy 2 prevents."""
    import triton.runtime.interpreter as interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patched


def chosen(
    parts: Sequence[str], operations: Sequence[str], names: Sequence[str], emulated: bool
) -> list[Case]:
    """The cases that are asked for and can run here."""
    return [
        case
        for part in parts
        for case in PARTS[part]
        if case.operation in operations
        and (not names or case.name in names)
        and not (INTERPRETED and case.compiled)
        and not (INTERPRETED and case.operation in IN_CUDA_C and not emulated)
    ]


def run_here(cases: Sequence[Case]) -> list[Row]:
    """Run cases in this process, and print each as a line of JSON."""
    torch.set_float32_matmul_precision("highest")
    device = torch.device("cpu" if INTERPRETED else "cuda")
    if INTERPRETED:
        count_with_tensors()
    rows = []
    for case in cases:
        rows.append(run_case(case, device))
        print(json.dumps(rows[-1]), flush=True)  # noqa: T201
    return rows


def run_apart(cases: Sequence[Case], workers: int) -> list[Row]:
    """Run cases in processes, one for each operation."""
    shares: dict[tuple[str, ...], list[Case]] = {}
    for case in sorted(cases, key=lambda case: case.operation not in LONG):
        shares.setdefault((case.operation, _third(case)), []).append(case)

    def run(share: list[Case]) -> list[Row]:
        command = [sys.executable, __file__, "--workers", "0", "--operations", share[0].operation]
        command += ["--cases", *(case.name for case in share)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
            )
            lines, ending = done.stdout, f"ended with {done.returncode}: {done.stderr[-800:]}"
        except subprocess.TimeoutExpired as problem:
            lines, ending = (problem.stdout or b"").decode(), f"more than {LIMIT_SECONDS} s"
        rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
        seen = {row["case"] for row in rows}
        missing = [case for case in share if case.name not in seen]
        rows += [
            {"operation": case.operation, "case": case.name, "seconds": 0.0, "problems": [ending]}
            for case in missing
        ]
        return rows

    with ThreadPoolExecutor(workers) as pool:
        return [row for rows in pool.map(run, shares.values()) for row in rows]


def _third(case: Case) -> str:
    """Warps are shared out by their interpolation, whose kernels differ."""
    modes = ("bilinear", "bicubic", "bspline") if case.operation == "warp" else ()
    return next((mode for mode in modes if mode in case.name), "")


def table(rows: Sequence[Row]) -> str:
    """One line for each operation, then what is wrong."""
    lines = [f"{'operation':22}{'cases':>6}{'wrong':>6}{'closest to its tolerance':>27}{'s':>7}"]
    for operation in dict.fromkeys(row["operation"] for row in rows):
        some = [row for row in rows if row["operation"] == operation]
        shares = [
            (row["errors"][what] / most, row["errors"][what], most)
            for row in some
            for what, most in row.get("tolerances", {}).items()
            if what in row.get("errors", {})
        ]
        _, error, most = max(shares, default=(0, float("nan"), float("nan")))
        wrong = sum(bool(row["problems"]) for row in some)
        seconds = sum(row["seconds"] for row in some)
        close = f"{error:.1e} of {most:.0e}"
        lines.append(f"{operation:22}{len(some):6}{wrong:6}{close:>27}{seconds:7.1f}")
    for row in rows:
        lines += [f"WRONG {row['operation']}, {row['case']}: {p}" for p in row["problems"]]
    return "\n".join(lines)


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--operations", nargs="+", default=list(ops.OPERATIONS), metavar="NAME")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--cases", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--emulate", choices=("address", "thread"))
    parser.add_argument("--out", type=Path, help="file for what was seen")
    given = parser.parse_args()
    if not (INTERPRETED or torch.cuda.is_available()):
        print("No GPU was found: TRITON_INTERPRET=1 runs the cases on a processor.")  # noqa: T201
        return 2
    began, cases = (
        time.perf_counter(),
        chosen(given.parts, given.operations, given.cases, given.emulate is not None),
    )
    if given.emulate:
        from fused_cases.emulation import emulate_warps

        emulate_warps(given.emulate)
    alone = INTERPRETED or given.workers == 0
    rows = run_here(cases) if alone else run_apart(cases, given.workers)
    wrong = [row for row in rows if row["problems"]]
    if given.out or not alone:
        seconds = time.perf_counter() - began
        print(table(rows))  # noqa: T201
        counts = f"{len(rows)} cases, {len(wrong)} wrong, {seconds:.0f} s"
        print(counts)  # noqa: T201
    if given.out:
        seen = {
            "name": "gpu",
            **provenance("cpu" if INTERPRETED else "cuda"),
            "source": source_digest(),
            "versions": versions("triton"),
            "cuda": torch.version.cuda,
            "form": given.emulate or ("interpreted" if INTERPRETED else "compiled"),
            "seconds": round(seconds, 1),
            "wrong": len(wrong),
            "rows": rows,
        }
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(seen, indent=1) + "\n")
        print(f"wrote {given.out}")  # noqa: T201
    return bool(wrong) or not rows


if __name__ == "__main__":
    sys.exit(main())
