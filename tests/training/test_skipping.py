"""Bad batches: left out, counted, and the run is as if they had not come."""

import json

import pytest
import torch
from torch import nn

from symmetries.training import NonFiniteError, train
from symmetries.training.checkpoint import load_state

from .helpers import loss, make_config, make_data, make_model, same_state


def broken_at(*places, value=float("nan")):
    def broken(model, batch, step):
        terms = dict(loss(model, batch, step))
        return terms | {"loss": terms["loss"] * (value if step.index in places else 1.0)}

    return broken


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_a_bad_batch_moves_nothing(optimizer, value):
    settings = {"algorithm": optimizer, "momentum": 0.9, "schedule": "constant", "warmup": 0}
    kept = []

    def on_step(step, metrics):
        kept.append([p.detach().clone() for p in model.parameters()])

    model = make_model()
    config = make_config(skip_bad=5, steps=8, **settings)
    history = train(model, broken_at(0, 3, 4, value=value), make_data(), config, on_step=on_step)
    assert all(torch.equal(a, b) for a, b in zip(kept[2], kept[4], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(kept[4], kept[5], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(kept[0], make_model().parameters(), strict=True))
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert history["skipped"][-1] == 3


def test_the_option_alone_changes_no_weight():
    plain, watched = make_model(), make_model()
    train(plain, loss, make_data(), make_config())
    history = train(watched, loss, make_data(), make_config(skip_bad=3))
    assert same_state(plain, watched)
    assert set(history["skipped"]) == {0.0}


def test_running_means_are_kept_from_a_bad_batch():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.out = nn.Linear(4, 1)

        def forward(self, x):
            return self.out(self.norm(x))

    def spoiled(model, batch, step):
        x, y = batch
        x = x * (float("nan") if step.index == 2 else 1.0)
        return {"loss": (model(x) - y).square().mean()}

    torch.manual_seed(0)
    model = Normed()
    train(model, spoiled, make_data(), make_config(steps=6, warmup=0, skip_bad=1))
    assert all(torch.isfinite(buffer).all() for buffer in model.buffers())


def test_too_many_stop_the_run(tmp_path):
    with pytest.raises(NonFiniteError, match=r"step 16: 3 batches .*2 allowed.*after step 15"):
        train(
            make_model(),
            broken_at(6, 8, 15),
            make_data(),
            make_config(tmp_path, skip_bad=2),
        )


def test_the_count_survives_a_resumption(tmp_path):
    def stop(step, metrics):
        if step.index == 17:
            raise RuntimeError("stop")

    bad = broken_at(3, 9, 20)
    whole, parts = make_model(), make_model()
    expected = train(whole, bad, make_data(), make_config(tmp_path / "whole", skip_bad=9))
    with pytest.raises(RuntimeError, match="stop"):
        train(parts, bad, make_data(), make_config(tmp_path / "a", skip_bad=9), on_step=stop)
    assert load_state(tmp_path / "a", "checkpoint")[1]["skipped"] == 2
    parts = make_model(seed=3)
    config = make_config(tmp_path / "a", skip_bad=9, resume=True)
    history = train(parts, bad, make_data(), config)
    assert same_state(whole, parts)
    assert history["skipped"] == expected["skipped"]
    assert history["skipped"][-1] == 3
    lines = (tmp_path / "a" / "metrics.csv").read_text().splitlines()
    assert "skipped" in lines[0].split(",")
    assert json.loads((tmp_path / "a" / "checkpoint.json").read_text())["meta"]["step"] == 24
