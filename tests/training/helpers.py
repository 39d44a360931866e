"""A small problem that every test of the loop can train."""

import json
from pathlib import Path

import torch
from torch import nn

from symmetries.training import TrainConfig

ROWS = 50
WORKER = Path(__file__).with_name("worker.py")


def make_model(dropout=0.2, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))


def make_data():
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(ROWS, 4, generator=generator)
    return x, x.sum(1, keepdim=True)


def loss(model, batch, step):
    x, y = batch
    noise = 0.1 * step.randn(*x.shape) + 0.1 * torch.randn(4, generator=step.generator)
    error = (model(x + noise) - y).square().mean()
    return {"loss": error + 0.01 * step.progress, "error": error}


def make_config(out=None, **changes):
    settings = {"steps": 24, "batch_size": 8, "lr": 0.01, "warmup": 1 / 8, "clip": 1.0, "seed": 7}
    settings |= {"log_every": 4, "checkpoint_every": 5, "device": "cpu", "progress": False}
    settings |= {"out": None if out is None else Path(out), **changes}
    return TrainConfig(1, 1).replace(**settings)


def same_state(a, b):
    first, second = a.state_dict(), b.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def run_jobs(start_script, jobs):
    """Run jobs in processes of their own: the exit codes of each, and the error output."""
    process = start_script(WORKER, json.dumps(jobs))
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1]), errors


def assert_weights(path, model, tolerance=0.0):
    """The weights a worker wrote are those of ``model``."""
    state = json.loads(Path(path).read_text())["state"]
    for name, value in model.state_dict().items():
        torch.testing.assert_close(torch.tensor(state[name]), value, rtol=tolerance, atol=tolerance)
