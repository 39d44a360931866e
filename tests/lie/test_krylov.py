"""Very many fields: the iterative solver against the dense spectrum."""

import sys

import pytest
import torch

import symmetries
from symmetries.lie import search
from symmetries.lie.functions import value_and_jacobian
from symmetries.lie.krylov import COUNT, smallest

KRYLOV = sys.modules["symmetries.lie.krylov"]


def points(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def three_turns(x):
    """A function that rotations of the first three coordinates leave alone."""
    rest = x[:, 3:]
    return x[:, :3].square().sum(1) + rest.pow(3).sum(1) + rest.prod(1) + rest[:, 0]


@pytest.fixture
def few_unknowns(monkeypatch):
    """The dense factor is refused above 40 unknown numbers."""
    monkeypatch.setattr(sys.modules["symmetries.lie.search"], "DIRECT", 40)


def test_the_smallest_defects_are_those_of_the_dense_spectrum():
    found = search(three_turns, points(900, 10), "linear")
    dense = found.spectrum().defects[:5]  # three symmetries, 0.113, 0.144
    slopes = value_and_jacobian(found.problem.function, found.coordinates)[1]
    fields, complete = smallest(slopes, found.coordinates, epsilon=0.12)
    above, below = found.problem.violations(found.coordinates, fields.flatten(1))
    again = (above.sum(0) / below.sum(0)).sqrt().sort().values[:5]
    assert complete
    assert torch.allclose(again, dense, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("fields", ["linear", "affine"])
def test_generators_of_many_coordinates_are_those_of_the_dense_search(few_unknowns, fields):
    x = points(1200, 9)
    found = symmetries.generators(x, model=three_turns, fields=fields)
    assert found.name == "so(3)"
    assert found.dimension == (3, 3)
    assert len(found.spectrum) <= 2 * COUNT


def test_more_coordinates_than_are_searched_directly():
    x = points(2 * 33**2, 33)
    found = symmetries.generators(x, model=three_turns, fields="linear")
    assert (found.name, found.dimension) == ("so(3)", (3, 3))


def test_more_unknown_numbers_than_can_be_factorised_are_refused(few_unknowns, monkeypatch):
    monkeypatch.setattr(KRYLOV, "MOST_FACTORISED", 80)
    with pytest.raises(ValueError, match="at most 80 unknown numbers"):
        symmetries.generators(points(1200, 9), model=three_turns, fields="linear")


def eight_turns(x):
    rest = x[:, 8:]
    return x[:, :8].square().sum(1) + rest.pow(3).sum(1) + (rest[:, 1:] * rest[:, :-1]).sum(1)


def test_brackets_complete_an_algebra_that_is_larger_than_a_block(few_unknowns):
    found = symmetries.generators(points(1000, 12), model=eight_turns, fields="linear")
    assert (found.name, found.dimension) == ("so(8)", (28, 28))


def test_commuting_symmetries_are_found_block_after_block(few_unknowns):
    def turned(x):  # of 13 planes
        return x.unflatten(1, (13, 2)).square().sum(2)

    found = symmetries.generators(points(600, 26), model=turned, fields="linear")
    assert found.dimension == (13, 13)
    assert COUNT < 13


def test_more_symmetries_than_are_searched_cannot_be_told(few_unknowns, monkeypatch):
    monkeypatch.setattr(KRYLOV, "MOST_FOUND", 20)
    found = symmetries.generators(points(1000, 12), model=eight_turns, fields="linear")
    assert found.dimension == (20, 144)
    assert found.answer.startswith("at least 20 fields")


def test_too_few_rows_are_refused(few_unknowns):
    with pytest.raises(ValueError, match="x: expected at least"):
        symmetries.generators(points(90, 9), model=three_turns, fields="linear")
