"""Options of benchmark scripts are accepted and do what their help says."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def script(name):
    """Import a benchmark script by its file name."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr("common.RESULTS", tmp_path)
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    yield tmp_path
    torch.set_float32_matmul_precision(precision)
    torch.set_num_threads(threads)


def test_a_quick_profile_of_the_invariant_step_leaves_the_stored_table_alone(
    results, monkeypatch, capsys
):
    step = script("invariant_step_cuda")
    monkeypatch.setattr(step, "DEVICE", "cpu")
    for name, value in {"UNITS": 8, "SAMPLES": 2, "BATCH": 16, "SIDE": 8}.items():
        monkeypatch.setattr(step, name, value)
    step.main(["--quick", "--profile"])
    assert "us of kernels per step" in capsys.readouterr().out
    assert not list(results.glob("*.json"))
    rows = json.loads((results / "parts" / "invariant_step-cpu.json").read_text())["rows"]
    assert {(row["what"], row["kind"], row["runs"]) for row in rows} == {
        ("library", "fourier", 1),
        ("library", "fourier", 2),
        ("library", "relu", 1),
        ("library", "relu", 2),
        ("natural, full batch", "fourier", 2),
    }
    assert all(row["ms_per_step"] > 0 for row in rows)


def test_without_a_gpu_the_invariant_step_says_what_to_run(results, monkeypatch, capsys):
    step = script("invariant_step_cuda")
    monkeypatch.setattr(step, "DEVICE", "cpu")
    step.main([])
    assert "--quick" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        step.parse(["--fast"])


def test_the_invariant_step_on_a_cpu_takes_processor_time(results, monkeypatch):
    step = script("invariant_step")
    for name, value in {"UNITS": 4, "SAMPLES": 2, "SIDE": 8, "BATCHES": (2,)}.items():
        monkeypatch.setattr(step, name, value)
    monkeypatch.setattr(sys, "argv", ["invariant_step.py", "--processor-time"])
    step.main()
    (path,) = results.glob("*.json")
    assert [row["clock"] for row in json.loads(path.read_text())["rows"]] == ["process_time"]


def test_rounding_runs_on_a_cpu_only_where_that_is_asked_for(results, monkeypatch, capsys):
    rounding = script("rounding")
    monkeypatch.setattr(rounding, "DEVICE", "cpu")
    monkeypatch.setattr(rounding, "cases", tuple)
    monkeypatch.setattr(sys, "argv", ["rounding.py"])
    rounding.main()
    assert "--anyhow" in capsys.readouterr().out
    assert not list(results.glob("*.json"))
    monkeypatch.setattr(sys, "argv", ["rounding.py", "--anyhow"])
    rounding.main()
    assert json.loads((results / "rounding-cpu.json").read_text())["rows"] == []


def test_audits_of_outputs_are_timed_against_bare_passes(results, monkeypatch):
    """Small on a CPU; the same script measures the goals. An audit passes 1 + 3 poses of C4."""
    numbers = {"depth": 18, "images": 6, "side": 32, "rounds": 1, "batch": 3}
    words = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
    monkeypatch.setattr(sys, "argv", ["audit_outputs.py", *words, "--part"])
    script("audit_outputs").main()
    (row,) = json.loads((results / "parts" / "audit_outputs-cpu.json").read_text())["rows"]
    assert row["network"] == "ResNet-18"
    assert set(row["seconds"]) == {"bare", "audit_model", "audit"}
    ratio = row["seconds"]["audit"] / row["seconds"]["bare"]
    assert row["ratio_to_bare"]["audit"] == pytest.approx(ratio)
    assert 0 <= row["agreement"] <= 1


def test_residual_networks_have_the_usual_sizes(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    residual = script("residual")
    counts = {18: 11_689_512, 50: 25_557_032}  # of torchvision's
    for depth, count in counts.items():
        assert sum(one.numel() for one in residual.resnet(depth).parameters()) == count


def test_paired_seeds_see_a_difference_that_seeds_alone_would_hide():
    compared = script("paired_seeds").compared
    old = [{"bound": float(seed)} for seed in range(5)]
    new = [{"bound": seed + 0.1 + 0.01 * (-1) ** seed} for seed in range(5)]
    (row,) = compared("VAE", old, new)
    assert row["difference"] == pytest.approx(0.102)
    assert row["moved"] > 3 > 1 > row["moved, unpaired"]
    (row,) = compared("VAE", old, old)
    assert row["moved"] == row["moved, unpaired"] == 0


@pytest.mark.parametrize("together", [True, False])
def test_no_training_begins_after_the_budget_and_none_that_was_paid_is_lost(
    together, results, monkeypatch, capsys
):
    accuracy, begun, kept = script("network_accuracy"), [], []

    def measured(method, law, several):
        count = len(several) if together else 1
        for seed in range(len(several)):
            begun.append((method, seed))
            row = {"seed": seed, "method": method, "accuracy": 1.0, "seconds": 10.0}
            yield {**row, "trained as one": count}

    monkeypatch.setattr(accuracy, "measured", measured)
    monkeypatch.setattr(accuracy, "load", lambda *_, **__: None)
    monkeypatch.setattr(accuracy, "sets", lambda *_: (None, None))
    monkeypatch.setattr(accuracy, "Comparison", lambda *_: None)
    monkeypatch.setattr(accuracy, "record", lambda name, rows, part: kept.append(len(rows)))
    words = "--labels 300 1250 --laws upright --methods none learned --seeds 0 1 --budget 5"
    monkeypatch.setattr(sys, "argv", ["network_accuracy.py", *words.split()])
    accuracy.main()
    count = 2 if together else 1
    assert begun == [(method, seed) for method in ("none", "learned") for seed in range(count)]
    assert kept[-1] == 2 * count
    assert "no time is left" in capsys.readouterr().out
