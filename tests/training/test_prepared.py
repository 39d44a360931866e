"""Batches that a function prepares do not depend on how many steps are prepared at once."""

import pytest
import torch
from torch import nn

from symmetries.training import Step, TrainConfig, train
from symmetries.training.batches import Prepared
from symmetries.training.best import BestWeights
from symmetries.training.source import make_batches

CPU = torch.device("cpu")


def shifted(batch, numbers):
    x = batch[0]
    u = numbers.rand(len(x), 2)
    return x + u + 0.1 * numbers.randn(*x.shape), u


def batches(data, steps, seed=3, first=0, rank=0, world=1):
    config = TrainConfig(steps, 8, seed=seed, device="cpu", progress=False)
    return make_batches(data, config, CPU, rank, world, first)


def test_what_a_step_gets_does_not_depend_on_the_others():
    x = torch.arange(40.0).reshape(20, 2)
    one, four = (batches(Prepared((x,), shifted, steps), 11) for steps in (1, 4))
    seen = []
    for step in range(11):
        for ours, theirs in zip(one.inputs(step), four.inputs(step), strict=True):
            assert torch.equal(ours, theirs)
        seen.append(one.inputs(step)[1])
    assert len({tuple(u.flatten().tolist()) for u in seen}) == 11
    resumed = batches(Prepared((x,), shifted, 4), 11, first=6)
    assert torch.equal(resumed.inputs(6)[0], one.inputs(6)[0])


def test_the_loss_draws_other_numbers():
    x = torch.zeros(20, 2)
    step = Step(11, 3, CPU)
    step.begin(0)
    assert not torch.equal(batches(Prepared((x,), shifted), 11).inputs(0)[1], step.rand(8, 2))


@pytest.mark.parametrize("steps", [1, 3])
def test_processes_share_what_one_would_prepare(steps):
    data = Prepared((torch.arange(40.0).reshape(20, 2),), shifted, steps)
    whole = batches(data, 7)
    halves = [batches(data, 7, rank=rank, world=2) for rank in range(2)]
    for step in range(7):
        together = [half.inputs(step) for half in halves]
        for part, parts in zip(whole.inputs(step), zip(*together, strict=True), strict=True):
            assert torch.equal(torch.cat(parts), part)


def test_a_run_that_resumes_ends_with_the_same_weights(tmp_path):
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))

    def loss(model, batch, step):
        return {"loss": (model(batch[0]) - batch[1]).square().mean()}

    def fitted(out, stop=None, resume=False):
        torch.manual_seed(0)
        model = nn.Linear(2, 2)

        def interrupt(step, metrics):
            if stop is not None and step.index + 1 == stop:
                raise KeyboardInterrupt

        config = TrainConfig(10, 8, device="cpu", progress=False, out=out, resume=resume)
        train(model, loss, Prepared((x,), shifted, 4), config, on_step=interrupt)
        return model.weight.detach()

    whole = fitted(tmp_path / "a")
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "b", stop=6)
    assert torch.equal(fitted(tmp_path / "b", resume=True), whole)


class Replayed:
    """Stands for a CUDA graph: calls what would be captured."""

    def __init__(self, update, step, model, warm_up=3):
        self.update = update
        step.keep_on_device()

    def __call__(self, inputs):
        return self.update(inputs)


@pytest.mark.parametrize("steps", [1, 4, 8])
def test_steps_that_are_one_graph_learn_what_single_steps_do(monkeypatch, steps):
    """Numbers, rates and progress are those of each step; what is due happens after the block."""
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))

    def loss(model, batch, step):
        found = model(batch[0]) + 0.1 * step.rand(len(batch[0]), 2) + step.progress
        return {"loss": (found - batch[1]).square().mean()}

    def fitted(graphed):
        torch.manual_seed(0)
        model, seen = nn.Linear(2, 2), []
        monkeypatch.setattr("symmetries.training.loop.wants_graph", lambda *_: graphed)
        monkeypatch.setattr("symmetries.training.loop.GraphedUpdate", Replayed)
        config = TrainConfig(30, 8, 0.1, device="cpu", progress=False)
        config = config.replace(log_every=10, warmup=0.2, clip=1.0)
        data = Prepared((x,), shifted, steps)
        history = train(model, loss, data, config, on_step=lambda s, _: seen.append(s.index))
        return model.weight.detach(), history, seen

    (alone, _, every), (together, history, seen) = fitted(False), fitted(True)
    assert torch.allclose(alone, together, atol=1e-6)
    assert every == list(range(30))
    blocks = 30 // steps * steps
    assert seen == [*range(steps - 1, blocks, steps), *range(blocks, 30)]
    assert history.step == {1: [1, 10, 20, 30], 4: [4, 12, 20, 30], 8: [8, 16, 24, 30]}[steps]


def test_held_out_examples_are_prepared_once_for_all_looks():
    x = torch.randn(700, 2, generator=torch.Generator().manual_seed(1))
    calls = []

    def prepare(batch, numbers):
        calls.append(len(batch[0]))
        return shifted(batch, numbers)

    def loss(model, batch, step):
        seen, u = batch if len(batch) > 1 else shifted(batch, step)
        return {"loss": (model(seen) - u).square().mean()}

    model, config = nn.Linear(2, 2), TrainConfig(10, 8, device="cpu", progress=False)
    once = BestWeights(model, x, loss, config, prepare=prepare)
    every = BestWeights(model, x, loss, config)
    first = once.look(CPU)
    assert first == every.look(CPU)
    with torch.no_grad():
        model.weight.mul_(2)
    assert once.look(CPU) == every.look(CPU) != first
    assert calls == [512, 188]
