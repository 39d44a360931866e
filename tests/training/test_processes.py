"""Several processes do the work of one."""

import json
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from symmetries.training import train
from symmetries.training.batches import Order
from symmetries.training.stacked_rng import DropoutByRows
from symmetries.training.step import Step

from .helpers import WORKER, assert_weights, loss, make_config, make_data, make_model, run_jobs


def test_two_processes_train_as_one(start_script, tmp_path):
    model = make_model()
    first = train(model, loss, make_data(), make_config())
    second = train(model, loss, make_data(), make_config(seed=1))
    configs = [{"devices": 2, "out": str(tmp_path / "run")}, {"devices": 2, "seed": 1}]
    job = {"world": 2, "configs": configs, "result": str(tmp_path / "result")}
    codes, errors = run_jobs(start_script, [job])
    assert codes == [[0, 0]], errors
    assert_weights(tmp_path / "result", model, tolerance=1e-5)
    metrics = json.loads((tmp_path / "result").read_text())["metrics"]
    for ours, history in zip(metrics, (first, second), strict=True):
        for name, values in history.metrics.items():
            assert ours[name] == pytest.approx(values, rel=1e-4)
    lines = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert len(lines) == 1 + len(first.step), "one process writes"


@pytest.mark.slow
def test_fabric_starts_the_other_process(tmp_path):
    model = make_model(dropout=0.0)
    train(model, loss, make_data(), make_config())
    job = {"dropout": 0.0, "configs": [{"devices": 2}], "result": str(tmp_path / "result")}
    subprocess.run([sys.executable, str(WORKER), "--direct", json.dumps(job)], check=True)
    assert_weights(tmp_path / "result", model, tolerance=1e-5)


def test_runs_of_one_process_beside_each_other_under_slurm(tmp_path, monkeypatch):
    """Two tasks of srun, each a run of its own: the second writes its files, too."""
    names = {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "1"}
    names |= {"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NODEID": "0", "SLURM_JOB_ID": "5"}
    for name, value in (names | {"SLURM_JOB_NAME": "job"}).items():
        monkeypatch.setenv(name, value)
    model = make_model()
    train(model, loss, make_data(), make_config(tmp_path, steps=4))
    assert (tmp_path / "checkpoint.json").exists()


@pytest.mark.parametrize("world", [1, 2, 4])
def test_shares_make_up_the_batch(world):
    whole = Order(examples=10, batch_size=8, seed=3)
    shares = [Order(10, 8, 3, rank, world) for rank in range(world)]
    for step in range(7):
        together = torch.cat([share.indices(step) for share in shares])
        assert torch.equal(together, whole.indices(step))


def test_every_example_comes_once_per_epoch():
    order = Order(examples=10, batch_size=4, seed=3)
    row = torch.cat([order.indices(step) for step in range(10)]).view(4, 10)
    assert torch.equal(row.sort(dim=1).values, torch.arange(10).expand(4, 10))
    assert not torch.equal(row[0], row[1])


def test_the_order_of_several_epochs_at_once_is_that_of_each():
    for examples, batch in ((3, 8), (10, 4), (700, 256)):
        one, many = (Order(examples, batch, seed=3) for _ in "ab")
        many.epochs = 5
        for step in range(40):
            assert torch.equal(one.indices(step), many.indices(step))


def test_batch_larger_than_the_data():
    order = Order(examples=3, batch_size=8, seed=0)
    row = torch.cat([order.indices(step) for step in range(3)]).view(8, 3)
    assert torch.equal(row.sort(dim=1).values, torch.arange(3).expand(8, 3))


def test_uneven_shares_are_refused():
    with pytest.raises(ValueError, match="batch_size: expected a multiple of 3"):
        Order(examples=10, batch_size=8, seed=0, rank=0, world=3)


def test_random_numbers_belong_to_the_example():
    device = torch.device("cpu")
    whole = Step(10, 0, device)
    halves = [Step(10, 0, device, rank, 2) for rank in range(2)]
    for step in (whole, *halves):
        step.begin(4)
    for draw in ("rand", "randn"):
        parts = [getattr(step, draw)(3, 5) for step in halves]
        assert torch.equal(torch.cat(parts), getattr(whole, draw)(6, 5))
    shared = {torch.rand(1, generator=step.generator).item() for step in (whole, *halves)}
    assert len(shared) == 1


def test_dropout_belongs_to_the_example():
    x = torch.arange(1.0, 25.0).view(6, 4).requires_grad_()
    torch.manual_seed(0)
    whole = F.dropout(x, 0.4)
    (slope,) = torch.autograd.grad(whole.square().sum(), x)
    for rank in range(2):
        torch.manual_seed(0)
        part = x[3 * rank : 3 * rank + 3].detach().requires_grad_()
        with DropoutByRows(rank, 2):
            dropped = nn.Dropout(0.4)(part)
            assert torch.equal(nn.Dropout(0.4).eval()(part), part)
        torch.testing.assert_close(dropped, whole[3 * rank : 3 * rank + 3])
        (own,) = torch.autograd.grad(dropped.square().sum(), part)
        torch.testing.assert_close(own, slope[3 * rank : 3 * rank + 3])
