import itertools
from functools import partial

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.auditing import logit_invariance, saliency_map, saliency_similarity
from symmetries.auditing.metrics import distribution_error, logit_error, normalised_logit_error
from symmetries.data import digits
from symmetries.groups import Affine2, Cyclic, CyclicShift, Product, Signal
from symmetries.learners.penalties import (
    ConstrainedWeight,
    augment,
    orbit_penalty,
    pair_penalty,
    random_elements,
    regularised_loss,
)

ERRORS = {"li": logit_error, "nli": normalised_logit_error, "di": distribution_error}


def mlp(side=6, hidden=24, classes=3):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(side * side, hidden), nn.ReLU(), nn.Linear(hidden, classes)
    )


@pytest.mark.parametrize("kind", ERRORS)
def test_orbit_penalty_is_the_mean_over_pairs(kind):
    logits = torch.randn(5, 4, 3, dtype=torch.float64, requires_grad=True)
    pairs = [
        pair_penalty(logits[:, g], logits[:, h], kind)
        for g, h in itertools.permutations(range(4), 2)
    ]
    expected = torch.stack(pairs).mean()
    torch.testing.assert_close(orbit_penalty(logits, kind), expected)
    torch.testing.assert_close(
        pair_penalty(logits[:, 0], logits[:, 1], kind),
        ERRORS[kind](logits[:, 0], logits[:, 1]).mean(),
    )
    assert torch.autograd.gradcheck(lambda z: orbit_penalty(z, kind), logits)


def test_orbit_penalty_is_what_the_audit_measures():
    torch.manual_seed(0)
    model, x = mlp(), torch.randn(20, 1, 6, 6)
    orbit = ImageAction(Cyclic(4)).orbit(Cyclic(4).elements(), x)
    logits = model(orbit.flatten(0, 1)).unflatten(0, (20, 4))
    # every image of an orbit has its turn as x
    measured = logit_invariance(model, orbit.flatten(0, 1), Cyclic(4)).mean
    assert float(orbit_penalty(logits)) == pytest.approx(measured, rel=1e-5)


def test_augmentation_moves_each_image_by_some_element():
    x = torch.randn(200, 1, 6, 6)
    generator = torch.Generator().manual_seed(0)
    moved = augment(x, CyclicShift("x", 3), generator=generator)
    orbit = ImageAction(CyclicShift("x", 3)).orbit(torch.arange(3), x)
    found = (orbit == moved[:, None]).flatten(2).all(2)
    assert found.any(1).all()
    assert found.float().mean(0).min() > 0.2  # every element has its share
    again = augment(x, CyclicShift("x", 3), generator=torch.Generator().manual_seed(0))
    assert torch.equal(moved, again)


def test_elements_of_continuous_groups_fill_the_box():
    group = Affine2("rotation")
    eta = group.log(random_elements(group, 500, half_width=0.3)).abs()
    assert 0.28 < float(eta.max()) <= 0.3 + 1e-5
    both = Affine2("translation")
    shifts = both.log(random_elements(both, 500, half_width=[0.1, 0.5])).abs().amax(0)
    assert shifts.tolist() == pytest.approx([0.1, 0.5], rel=0.05)
    assert random_elements(Signal("shift"), 7).shape == (7, 4)


@pytest.mark.parametrize("group", [Cyclic(4), Affine2("rotation")], ids=repr)
@pytest.mark.parametrize("kind", ERRORS)
def test_regularised_loss(group, kind):
    torch.manual_seed(0)
    model, x, y = mlp(), torch.randn(8, 1, 6, 6), torch.randint(3, (8,))
    found = regularised_loss(
        model, x, y, group, nu=0.5, kind=kind, generator=torch.Generator().manual_seed(1)
    )
    torch.testing.assert_close(found["loss"], found["task"] + 0.5 * found["penalty"])
    found["loss"].backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_products_can_be_sampled():
    model, x, y = mlp(), torch.randn(8, 1, 6, 6), torch.randint(3, (8,))
    group = Product(Affine2("rotation"), CyclicShift("x", 3))
    assert float(regularised_loss(model, x, y, group, nu=1.0, samples=3)["penalty"]) > 0


def test_training_with_the_penalty_makes_a_model_invariant():
    torch.manual_seed(0)
    x = torch.randn(64, 1, 6, 6)
    y = (x.square().mean((1, 2, 3)) > 1).long()
    after = {}
    for nu in (0.0, 10.0):
        torch.manual_seed(1)
        model = mlp(classes=2)
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(150):
            loss = regularised_loss(model, x, y, Cyclic(4), nu=nu)["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        after[nu] = logit_invariance(model, x, Cyclic(4), normalised=True).mean
    assert after[10.0] < after[0.0] / 5


def test_constrained_weight_reaches_the_target():
    """A toy whose error falls as 1 / nu: the weight must settle where the error is the target."""
    weight = ConstrainedWeight(target=0.02, start=1.0, rate=0.3)
    for _ in range(100):
        weight.update(1 / weight.nu)
    assert float(weight.nu) == pytest.approx(50, rel=1e-3)
    similar = ConstrainedWeight(target=0.95, measure="similarity", rate=0.3)
    for _ in range(100):
        similar.update(1 - 1 / (1 + similar.nu))
    assert float(similar.nu) == pytest.approx(19, rel=1e-3)


def test_constrained_weight_keeps_its_bounds_and_is_saved():
    weight = ConstrainedWeight(target=0.1, bounds=(0.5, 2.0), rate=1.0)
    for _ in range(5):
        weight.update(100.0)
    assert float(weight.nu) == pytest.approx(2.0)
    other = ConstrainedWeight(target=0.1)
    other.load_state_dict(weight.state_dict())
    assert float(other.nu) == pytest.approx(2.0)


def test_constrained_training_reaches_the_logit_invariance_asked_for():
    torch.manual_seed(0)
    x = torch.randn(64, 1, 6, 6)
    y = (x[:, 0, :3].mean((1, 2)) > 0).long()  # not invariant at all: task and penalty disagree
    model, weight = mlp(classes=2), ConstrainedWeight(target=0.05, rate=0.1)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(400):
        found = regularised_loss(model, x, y, Cyclic(4), nu=weight.nu)
        weight.update(found["penalty"])
        optimizer.zero_grad()
        found["loss"].backward()
        optimizer.step()
    assert float(found["penalty"]) == pytest.approx(0.05, rel=0.5)


def test_constrained_training_reaches_the_similarity_asked_for():
    torch.manual_seed(0)
    train, test = digits("train"), digits("test").subset(range(100))
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    look = partial(saliency_map, steps=8)

    def similarity():
        args = (model, test.images, Cyclic(4), test.labels)
        return saliency_similarity(*args, saliency=look).mean

    before = similarity()
    weight = ConstrainedWeight(target=0.9, measure="similarity", rate=0.5)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    found = []
    for step in range(400):
        rows = torch.randint(len(train), (64,))
        batch = train.images[rows], train.labels[rows]
        loss = regularised_loss(model, *batch, Cyclic(4), nu=weight.nu)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            found.append(similarity())
            weight.update(found[-1])
    assert before < 0.7
    assert 0.9 < sum(found[-10:]) / 10 < 0.98
    assert float(weight.nu) < 1  # it went up, was too strong, and came down again


def test_bad_arguments():
    with pytest.raises(ValueError, match="kind"):
        pair_penalty(torch.zeros(2, 3), torch.zeros(2, 3), "l2")
    with pytest.raises(ValueError, match="whole orbits"):
        orbit_penalty(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="moved: expected the shape of logits"):
        pair_penalty(torch.zeros(2, 3), torch.zeros(1, 3))
    with pytest.raises(ValueError, match="target"):
        ConstrainedWeight(target=1.0, measure="similarity")
    with pytest.raises(ValueError, match="start"):
        ConstrainedWeight(target=1.0, start=0.0)
