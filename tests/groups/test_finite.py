"""Finite groups against permutations and matrices."""

import math

import pytest
import torch

from symmetries.groups import Cyclic, CyclicShift, Dihedral, Flip

GROUPS = [Cyclic(1), Cyclic(4), Cyclic(5), CyclicShift("x", 3), Flip("y"), Dihedral(1)]
GROUPS += [Dihedral(2), Dihedral(3), Dihedral(4), Dihedral(7)]
PLANE = [Cyclic(1), Cyclic(2), Cyclic(4), Cyclic(6), Flip("x"), Flip("y"), Dihedral(4), Dihedral(5)]


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_cayley_table_is_a_latin_square_with_identity_and_inverses(group):
    table, every = group.table, group.elements()
    assert table.shape == (group.order, group.order)
    assert table.dtype == torch.int64
    for lines in (table, table.T):
        assert lines.sort(1).values.equal(every.expand(group.order, -1))
    assert table[0].equal(every)
    assert table[:, 0].equal(every)
    assert not table[every, group.inverse(every)].any()
    a, b, c = torch.meshgrid(every, every, every, indexing="ij")
    assert table[table[a, b], c].equal(table[a, table[b, c]])


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_every_element_has_its_steps(group):
    every = group.elements()
    steps = group.log(every)
    assert steps.shape == (group.order, group.dim)
    assert group.exp(steps).equal(every)
    assert group.exp(steps.double() + 1e-9).equal(every)
    assert len({tuple(row) for row in steps.tolist()}) == group.order
    assert (steps.abs() <= torch.tensor(group.bounds)).all()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_dihedral_group_is_that_of_a_polygon(n):
    # A second route: numbers on a polygon's corners, turned and mirrored as lists.
    corners = list(range(n))

    def act(index, numbers):
        if index >= n:
            numbers = [numbers[-i % n] for i in range(n)]
        return [numbers[(i - index) % n] for i in range(n)]

    table = Dihedral(n).table.tolist()
    for a in range(2 * n):
        for b in range(2 * n):
            assert act(table[a][b], corners) == act(a, act(b, corners))


@pytest.mark.parametrize("group", PLANE, ids=repr)
def test_matrices_multiply_as_the_elements_do(group):
    every = group.elements()
    matrices = group.matrix(every, torch.float64)
    assert matrices.shape == (group.order, 3, 3)
    products = matrices[:, None] @ matrices[None]
    torch.testing.assert_close(matrices[group.table], products, atol=1e-15, rtol=0)
    different = torch.cdist(matrices.flatten(1), matrices.flatten(1)) > 0.1
    assert different.equal(~torch.eye(group.order, dtype=torch.bool))


@pytest.mark.parametrize("group", [Cyclic(2), Cyclic(4), Dihedral(4), Dihedral(2)], ids=repr)
def test_quarter_turns_are_exact(group):
    matrices = group.matrix(group.elements())
    assert matrices.equal(matrices.round())
    assert not torch.signbit(matrices[matrices == 0]).any()


def test_quarter_turns_are_exact_among_other_turns():
    matrix = Cyclic(12).matrix(torch.tensor([0, 3, 6, 9]))
    assert matrix.equal(Cyclic(4).matrix(torch.arange(4)))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 16])
def test_rotations_are_counter_clockwise_by_their_angle(n):
    group = Cyclic(n)
    index = torch.arange(n)
    angle = 2 * math.pi * index.double() / n
    matrix = group.matrix(index, torch.float64)
    torch.testing.assert_close(matrix[:, 0, 0], angle.cos(), atol=1e-15, rtol=0)
    torch.testing.assert_close(matrix[:, 1, 0], angle.sin(), atol=1e-15, rtol=0)
    principal = group.angle(index, torch.float64)
    assert ((principal >= -math.pi) & (principal < math.pi)).all()
    torch.testing.assert_close(principal.cos(), angle.cos(), atol=1e-14, rtol=0)
    torch.testing.assert_close(principal.sin(), angle.sin(), atol=1e-14, rtol=0)


def test_the_dihedral_flip_comes_before_the_rotation():
    group = Dihedral(4)
    point = torch.tensor([1.0, 0.0, 1.0])
    moved = group.matrix(group.exp(torch.tensor([1, 1]))) @ point  # to the left, then down
    assert moved.tolist() == [0.0, -1.0, 1.0]


def test_indices_may_have_any_shape():
    group = Dihedral(3)
    a = torch.randint(0, 6, (2, 3, 4), generator=torch.Generator().manual_seed(0))
    assert group.compose(a, group.inverse(a)).equal(group.identity(2, 3, 4))
    assert group.matrix(a).shape == (2, 3, 4, 3, 3)


def test_equal_groups_are_equal():
    assert Cyclic(4) == Cyclic(4) != Cyclic(5)
    assert CyclicShift("x", 3) != CyclicShift("y", 3)
    assert len({Flip("x"), Flip("x"), Flip("y")}) == 2


@pytest.mark.parametrize("n", [0, -1, 2.0, "4", True])
@pytest.mark.parametrize("make", [Cyclic, Dihedral, lambda n: CyclicShift("x", n)])
def test_counts_are_whole_and_positive(make, n):
    with pytest.raises(ValueError, match="expected a whole number of at least 1, got"):
        make(n)


@pytest.mark.parametrize("make", [Flip, lambda axis: CyclicShift(axis, 3)])
def test_unknown_axis(make):
    with pytest.raises(ValueError, match="axis: expected one of 'x', 'y', got 'z'"):
        make("z")
