"""Threads that take turns run one at a time, one step each."""

import time
from functools import partial

import pytest
import torch
from torch import nn

from symmetries.training import TrainConfig, train
from symmetries.training.side_by_side import Turns, next_turn, side_by_side


def in_turn(tasks):
    turns = Turns()

    def call(task):
        while len(turns._queue) < len(tasks):  # the first waits for the others
            time.sleep(0.001)
        return task()

    calls = [partial(turns.call, partial(call, task)) for task in tasks]
    return side_by_side(calls, len(tasks))


def test_threads_hand_over_after_each_step():
    seen, running = [], []

    def task(name):
        steps = 2 if name == "c" else 5
        for _ in range(steps):
            running.append(name)
            seen.append(name)
            assert running == [name]  # nobody else is between two hand-overs
            running.remove(name)
            next_turn()
        return name

    assert in_turn([partial(task, name) for name in "abc"]) == [*"abc"]
    assert sorted(seen[:3]) == [*"abc"]
    assert seen[3:6] == seen[:3]
    assert len(set(seen[6:8])) == len(set(seen[8:10])) == len(set(seen[10:12])) == 2


def test_an_error_lets_the_others_go_on():
    def wrong():
        next_turn()
        raise ValueError("wrong")

    ended = []

    def right():
        for _ in range(3):
            next_turn()
        ended.append(True)

    with pytest.raises(ValueError, match="wrong"):
        in_turn([wrong, right])
    assert ended


def test_trainings_that_take_turns_are_those_of_each_alone():
    def loss(model, batch, step):
        return {"loss": (model(batch[0]) - step.randn(8, 1)).square().mean()}

    def fitted(seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = nn.Linear(3, 1)
        x = torch.ones(16, 3)
        config = TrainConfig(20, 8, seed=seed, device="cpu", progress=False)
        train(model, loss, (x,), config)
        return model.weight.detach().clone()

    together = in_turn([partial(fitted, seed) for seed in (0, 1)])
    for seed, weight in enumerate(together):
        assert torch.equal(weight, fitted(seed))
