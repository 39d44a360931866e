"""The learned box: moments, bounds, gradients, and the three ways of sampling it."""

import math

import pytest
import torch

from symmetries.distributions.box import UniformBox, grid_points, sobol_points
from symmetries.groups.affine import Affine2
from symmetries.groups.finite import Cyclic


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_samples_are_uniform_in_the_box():
    box = UniformBox(Affine2("rotation", "shift_x"), [0.5, math.pi / 2])
    eta = box.sample(200_000, generator=seeded()).detach()
    assert box.group.names == ("shift_x", "rotation")
    torch.testing.assert_close(eta.mean(0), torch.zeros(2), rtol=0, atol=0.01)
    width = torch.tensor([0.5, math.pi / 2])
    torch.testing.assert_close(eta.var(0), width**2 / 3, rtol=0.01, atol=0)
    assert (eta.abs() <= width).all()


@pytest.mark.parametrize("constraint", ["none", "softplus", "tanh", "reflect"])
@pytest.mark.parametrize("degrees", [5, 45, 90, 175])
def test_starts_where_told_and_gradients_reach_the_widths(constraint, degrees):
    box = UniformBox(Affine2("rotation"), math.radians(degrees), constraint=constraint)
    assert math.degrees(box.half_width.item()) == pytest.approx(degrees, abs=0.05)
    box.sample(64, generator=seeded()).square().mean().backward()
    assert box.free.grad is not None
    assert box.free.grad.item() > 0


def test_wide_boxes_start_where_told():
    for width in (1e-3, 100.0, 190.0):
        box = UniformBox(Cyclic(400), width, constraint="softplus")
        assert box.half_width.item() == pytest.approx(width, rel=1e-4)


def test_tanh_never_leaves_the_bound():
    box = UniformBox(Affine2("rotation"), math.pi, constraint="tanh")
    with torch.no_grad():
        box.free.fill_(1e6)
    assert box.half_width.item() <= math.pi + 1e-6


def test_reflect_mirrors_at_both_ends():
    box = UniformBox(Affine2("rotation"), 1.0, constraint="reflect")
    for free, width in ((-0.5, 0.5), (4.0, 2 * math.pi - 4), (2 * math.pi + 1, 1.0)):
        with torch.no_grad():
            box.free.fill_(free)
        assert box.half_width.item() == pytest.approx(width, abs=1e-5)


@pytest.mark.parametrize("constraint", ["none", "softplus", "tanh", "reflect"])
def test_several_boxes_are_constrained_at_once(constraint):
    boxes = [UniformBox(Affine2("rotation"), w, constraint=constraint) for w in (0.2, 1.0, 3.0)]
    together = boxes[0].constrained(torch.stack([box.free for box in boxes]))
    assert torch.equal(together, torch.stack([box.half_width for box in boxes]))


def test_sobol_beats_random_and_is_unbiased():
    """The mean of a smooth function: a smaller error at the same n, and right on average."""

    def estimate(method, seed):
        eta = box.sample(64, method, seeded(seed))
        return torch.cos(2 * eta).prod(-1).mean().item()

    box = UniformBox(Affine2("translation"), 1.0, learn=False)
    truth = (math.sin(2) / 2) ** 2
    errors = {m: [estimate(m, s) - truth for s in range(40)] for m in ("random", "sobol")}
    rms = {m: math.sqrt(sum(e * e for e in v) / len(v)) for m, v in errors.items()}
    assert rms["sobol"] < rms["random"] / 4
    assert abs(sum(errors["sobol"]) / 40) < 3 * rms["sobol"] / math.sqrt(40)


def test_grid_is_linearly_spaced_and_deterministic():
    assert grid_points(3, 1).flatten().tolist() == [-1, 0, 1]
    assert grid_points(1, 2).tolist() == [[0, 0]]
    assert len(grid_points(27, 3).unique(dim=0)) == 27
    box = UniformBox(Affine2("translation"), 0.5)
    assert box.sample(9, "grid").equal(box.sample(9, "grid"))


def test_same_seed_same_samples():
    box = UniformBox(Affine2(), 0.3)
    for method in ("random", "sobol"):
        assert box.sample(8, method, seeded(1)).equal(box.sample(8, method, seeded(1)))
        assert not box.sample(8, method, seeded(1)).equal(box.sample(8, method, seeded(2)))
    assert sobol_points(16, 6, seeded()).abs().max() <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: UniformBox(g, 4.0), r"half_width: expected a number in \[0, 3.142\]"),
        (lambda g: UniformBox(g, -0.1), "half_width: expected"),
        (lambda g: UniformBox(g, math.nan), "half_width: expected"),
        (lambda g: UniformBox(g, [0.1, 0.2]), "one number, or 1 for rotation"),
        (lambda g: UniformBox(g, 0.1, constraint="exp"), "constraint: expected one of"),
        (lambda g: UniformBox(g, 0.1).sample(0), "n: expected a whole number of at least 1"),
        (lambda g: UniformBox(g, 0.1).sample(3, "halton"), "method: expected one of"),
        (lambda g: grid_points(10, 2), "take 9 or 16"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(Affine2("rotation"))
