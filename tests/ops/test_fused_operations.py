"""Every fused operation against its oracle: one registry, in three places (see gpu.py)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fused_cases import CASES, IN_CUDA_C, PARTS, Case, run_case
from fused_cases.checking import function_case

from symmetries.ops import OPERATIONS, _dispatch
from symmetries.ops._dispatch import usable

SCRIPT = Path(__file__).with_name("gpu.py")


def run_script(*arguments):
    """Run cases in a process of its own, as the interpreter is chosen when Triton is imported."""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    wrong = [row for row in rows if row["problems"]]
    assert not wrong, wrong
    assert done.returncode == 0, done.stderr[-2000:]
    return rows


@pytest.mark.parametrize(
    "parts", [["convolutions"], [part for part in PARTS if part != "convolutions"]], ids=" ".join
)
def test_kernels_in_the_interpreter_agree_with_their_oracles(parts):
    rows = run_script("--parts", *parts)
    here = [case for part in parts for case in PARTS[part] if case.operation not in IN_CUDA_C]
    expected = [case.name for case in here if not case.compiled]
    assert [row["case"] for row in rows] == expected


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_warps_in_cuda_c_do_not_leave_their_memory_and_do_not_race(sanitizer):
    assert run_script("--operations", "warp", "--emulate", sanitizer)


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.operation}: {case.name}")
def test_compiled_kernels_agree_with_their_oracles(case):
    assert run_case(case, torch.device("cuda"))["problems"] == []


def test_every_operation_has_a_case_and_every_case_a_name_of_its_own():
    assert {case.operation for case in CASES} == set(OPERATIONS)
    names = [(case.operation, case.name) for case in CASES]
    assert len(names) == len(set(names))


@pytest.fixture
def readable(monkeypatch):
    monkeypatch.setattr(_dispatch, "_INTERPRETED", True)
    monkeypatch.setattr(_dispatch, "_HAS_TRITON", True)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("none", None),
        ("value", "value off by 1.0e-03, allowed 2e-05"),
        ("gradient", "gradient off by 5.0e-01, allowed 2e-05"),
        ("nan", "value off by nan"),
        ("torch form", "the fused form did not run"),
        ("error", "ValueError: no"),
    ],
)
def test_a_wrong_form_is_noticed(readable, fault, problem):
    def square(x):
        if x.dtype == torch.float64:
            return x * x
        if fault != "torch form":
            usable("warp", x)
        if fault == "error":
            raise ValueError("no")
        scale = {"value": 1.001, "nan": torch.nan}.get(fault, 1.0)
        return scale * (x.detach() * x if fault == "gradient" else x * x)

    case = function_case("warp", "square", square, lambda g: [torch.rand(5, generator=g)])
    assert isinstance(case, Case)
    problems = run_case(case, torch.device("cpu"))["problems"]
    assert (problems == []) == (problem is None)
    assert problem is None or any(problem in each for each in problems)
