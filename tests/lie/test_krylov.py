"""Very many fields: the iterative solver against the dense spectrum."""

import sys

import pytest
import torch

import symmetries
from symmetries.lie import search
from symmetries.lie.functions import value_and_jacobian
from symmetries.lie.krylov import COUNT, smallest


def points(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def three_turns(x):
    """A function that rotations of the first three coordinates leave alone."""
    rest = x[:, 3:]
    return x[:, :3].square().sum(1) + rest.pow(3).sum(1) + rest.prod(1) + rest[:, 0]


@pytest.fixture
def few_unknowns(monkeypatch):
    """The dense factor is refused above 50 unknown numbers."""
    monkeypatch.setattr(sys.modules["symmetries.lie.search"], "MOST", 50)


def test_the_smallest_defects_are_those_of_the_dense_spectrum():
    found = search(three_turns, points(900, 10), "linear")
    dense = found.spectrum().defects[:6]
    slopes = value_and_jacobian(found.problem.function, found.coordinates)[1]
    fields = smallest(slopes, found.coordinates, count=6, epsilon=10.0)
    above, below = found.problem.violations(found.coordinates, fields.flatten(1))
    again = (above.sum(0) / below.sum(0)).sqrt().sort().values
    assert torch.allclose(again, dense, rtol=0.02, atol=1e-4)


@pytest.mark.parametrize("fields", ["linear", "affine"])
def test_generators_of_many_coordinates_are_those_of_the_dense_search(few_unknowns, fields):
    x = points(1200, 9)
    found = symmetries.generators(x, model=three_turns, fields=fields)
    assert found.name == "so(3)"
    assert found.dimension == (3, 3)
    assert len(found.spectrum) <= 2 * COUNT


def test_more_symmetries_than_are_searched_cannot_be_told(few_unknowns):
    found = symmetries.generators(
        points(1200, 8), model=lambda x: x.square().sum(1), fields="linear"
    )
    assert COUNT <= found.dimension[0] <= 28
    assert found.dimension[1] > 28


def test_too_few_rows_are_refused(few_unknowns):
    with pytest.raises(ValueError, match="x: expected at least"):
        symmetries.generators(points(90, 9), model=three_turns, fields="linear")
