"""Trainings side by side: same results as in turn, and all of them end when one must."""

import signal
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

from symmetries.training import TrainConfig, train
from symmetries.training import side_by_side as module
from symmetries.training.side_by_side import available_cores, side_by_side, threads_of_a_fit


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(module, "available_cores", lambda: 2)


def task(seed, steps=30, out=None, resume=False, on_step=None):
    """A training whose numbers come from its step alone."""

    def loss(model, batch, step):
        noise = step.randn(*batch[0].shape)
        return {"loss": (model(batch[0] + 0.1 * noise) - 1).square().mean()}

    def run():
        model = nn.Linear(4, 1)
        nn.init.constant_(model.weight, 0.1)
        nn.init.constant_(model.bias, 0.0)
        config = TrainConfig(steps, 8, seed=seed, device="cpu", progress=False, out=out)
        config = config.replace(resume=resume, checkpoint_every=10**6)
        train(model, loss, (torch.ones(16, 4),), config, on_step=on_step)
        return model.weight.detach().clone()

    return run


def test_results_are_those_in_turn_and_in_order():
    alone = side_by_side([task(seed) for seed in range(4)], at_a_time=1)
    beside = side_by_side([task(seed) for seed in range(4)], at_a_time=2)
    assert all(torch.equal(a, b) for a, b in zip(alone, beside, strict=True))
    assert not torch.equal(alone[0], alone[1])


def test_two_tasks_really_run_at_a_time():
    met = threading.Barrier(2, timeout=20)
    assert len(set(side_by_side([lambda: met.wait(), lambda: met.wait()]))) == 2


def test_global_numbers_and_threads_are_as_before():
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    side_by_side([task(0), task(1)])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_an_error_ends_the_others_with_a_checkpoint(tmp_path):
    begun = threading.Event()

    def fails():
        begun.wait(20)
        raise ZeroDivisionError("here")

    long = task(1, 100_000, tmp_path / "long", on_step=lambda step, metrics: begun.set())
    never = []
    with pytest.raises(ZeroDivisionError, match="here"):
        side_by_side([long, fails, lambda: never.append(1)])
    assert (tmp_path / "long" / "checkpoint.json").exists()
    assert not never


SCRIPT = """
import sys, time
from pathlib import Path
from symmetries.training import side_by_side as module
from tests.training.test_side_by_side import task
module.available_cores = lambda: 2
out, resume = Path(sys.argv[1]), sys.argv[2] == "resume"
def said(step, metrics):
    if step.index == 5:
        print("began", flush=True)
        time.sleep(1)
module.side_by_side([task(s, 60, out / str(s), resume, said) for s in (1, 2)])
"""


def test_an_interrupted_pair_goes_on_to_the_same_bits(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "runs")]
    process = subprocess.Popen([*command, "new"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert b"stopped after step" in errors
    again = [task(s, 60, tmp_path / "runs" / str(s), True) for s in (1, 2)]
    for found, seed in zip(side_by_side(again), (1, 2), strict=True):
        assert torch.equal(found, task(seed, 60)())


def test_cores_are_those_that_openmp_may_use(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert available_cores() == threads_of_a_fit() == 1
    for unset in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", unset)
        assert available_cores() >= 1
