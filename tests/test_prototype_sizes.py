"""Prototypes as large as images, on average: another choice of prototypes, as good as the first."""

from pathlib import Path

import pytest
import torch

from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel

AFFINE = "shift_x,shift_y,rotation,scale_x,scale_y"


@pytest.fixture
def at_mean_size(monkeypatch):
    paper = Path(__file__).parents[1] / "papers" / "invariant-vae"
    monkeypatch.syspath_prepend(str(paper))
    from prototype_sizes import at_mean_size

    return at_mean_size


def some_model(group, **changes):
    """A symmetry model that finds something else in every image."""
    config = {"widths": (16,), "features": (8,), "layers": 2, "conditioner": 8} | changes
    quick = SymmetryConfig.preset("quick")
    model = SymmetryModel(group, (1, 8, 8), quick.replace(**config))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for part in (model.inference.head.weight, model.inference.head.bias):
            part += 0.5 * torch.randn(part.shape, generator=generator)
    return model


@pytest.mark.parametrize(
    ("group", "moments"),
    [(AFFINE, "none"), (AFFINE, "centre"), ("similarity", "size"), ("rotation,zoom", "none")],
)
def test_sizes_change_and_nothing_else(group, moments, at_mean_size):
    model = some_model(group, moments=moments)
    x = torch.rand(50, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    before = model.element(x)
    removed = at_mean_size(model, x)
    after = model.element(x)
    assert abs(removed) > 0.01
    assert float(torch.linalg.det(after).log().mean()) == pytest.approx(0, abs=1e-5)
    # The way from one image over the prototype to another is what it was.
    between = [e @ torch.linalg.inv(e.roll(1, 0)) for e in (before, after)]
    torch.testing.assert_close(*between, rtol=1e-4, atol=1e-5)
    # All prototypes are zoomed alike.
    zoom = torch.linalg.inv(after) @ before
    expected = torch.diag(torch.tensor([removed, removed, 0.0]).exp())
    torch.testing.assert_close(zoom, expected.expand_as(zoom), rtol=1e-4, atol=1e-5)
    assert at_mean_size(model, x) == pytest.approx(0, abs=1e-6)


def test_families_without_sizes_stay_as_they_are(at_mean_size):
    x = torch.rand(4, 1, 8, 8)
    for group in ("rotation", "translation", "scale_x,rotation", "c4"):
        model = SymmetryModel(group, (1, 8, 8), "quick")
        assert at_mean_size(model, x) == 0.0
        assert float(model.inference.head.bias.detach().norm()) < 1


def test_squashed_sizes_are_refused(at_mean_size):
    model = some_model("rotation,zoom", squash="tanh")
    with pytest.raises(ValueError, match="model: expected one whose sizes are not squashed"):
        at_mean_size(model, torch.rand(4, 1, 8, 8))
