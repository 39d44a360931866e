"""Subgroups of rotations are found from copies of objects, and nothing is named that is none."""

import math

import pytest
import torch
from benchmarks.generators.solids import SOLIDS

from symmetries.groups.rotations import cross_matrix
from symmetries.lie import Subgroup, find_subgroup
from symmetries.lie.subgroups import angles, kabsch, modes, name_finite
from symmetries.lie.which_subgroup import wasserstein

EMPTY = torch.zeros(0, 3, 3, dtype=torch.float64)
SPACE = Subgroup("SO(3)", EMPTY, None, 3)


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def copies(rotations, noise=0.02, objects=1, seed=1):
    generator, dim = source(seed), rotations.shape[-1]
    corners = torch.randn(objects, 4, dim, generator=generator, dtype=torch.float64)
    chosen = torch.randint(objects, (len(rotations),), generator=generator)
    x = corners[chosen] @ rotations.mT
    return x + noise * torch.randn(x.shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("name", "order"), [("C7", 7), ("D3", 6), ("T", 12), ("O", 24), ("I", 60)])
def test_finite_groups_are_named_by_their_elements(name, order):
    turned = SPACE.sample(1, source())[0]
    elements = turned @ SOLIDS[name] @ turned.T
    assert len(elements) == order
    assert name_finite(elements) == name


@pytest.mark.parametrize("name", ["C1", "C4", "T", "I"])
def test_finite_subgroups_are_found_about_any_axes(name):
    turned = SPACE.sample(1, source(3))[0]
    true = Subgroup(name, turned @ SOLIDS[name] @ turned.T, None, 3)
    found = find_subgroup(copies(true.sample(700, source(4)), objects=3), "so3")
    assert found.answer == name
    assert angles(true.elements, found.subgroup.elements).amin(1).max() < 0.02
    assert found.alternative_distance > 1.5 * found.distance


def test_equal_copies_in_single_precision_do_not_hide_the_others():
    elements = torch.cat([SOLIDS["C4"]] * 20)
    x = copies(SPACE.sample(1, source(3)) @ elements, noise=0.0).float()
    assert find_subgroup(x, seed=2).answer == "C4"  # C1, if only equal ones are compared


def test_continuous_subgroups_are_found():
    axis = SPACE.sample(1, source(5))[0, 0]
    about = Subgroup("SO(2)", EMPTY, axis, 3)
    found = find_subgroup(copies(about.sample(300, source(6))), "so3")
    assert found.answer == "SO(2)"
    assert float((found.subgroup.axis @ axis).abs()) > 0.999
    assert find_subgroup(copies(SPACE.sample(300, source(7))), "so3").answer == "SO(3)"


def test_mirror_images_make_dihedral_groups_of_the_plane():
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    turns = torch.stack([torch.linalg.matrix_power(quarter, n) for n in range(4)])
    mirrored = torch.cat((turns, turns @ torch.diag(torch.tensor([1.0, -1.0]).double())))
    drawn = mirrored[torch.randint(8, (400,), generator=source(8))]
    assert find_subgroup(copies(drawn), "o2").answer == "D4"
    turned = turns[torch.randint(4, (400,), generator=source(9))]
    assert find_subgroup(copies(turned), "so2").answer == "C4"


def test_what_is_no_subgroup_is_not_named():
    generator = source(10)
    small = torch.rand(400, 1, 1, generator=generator, dtype=torch.float64) * 2 * math.pi / 3
    upright = cross_matrix(torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64))
    partial = find_subgroup(copies(torch.linalg.matrix_exp(small * upright)), "so3")
    assert "not spread evenly" in partial.answer
    two = torch.randint(2, (400, 1, 1), generator=generator) * math.pi / 2
    half = find_subgroup(copies(torch.linalg.matrix_exp(two * upright)), "so3")
    assert "not closed" in half.answer
    single = find_subgroup(copies(SPACE.sample(100, generator), objects=100_000), "so3")
    assert "pairs of copies" in single.answer


@pytest.mark.parametrize(("name", "noise"), [("I", 0.0), ("O", 0.3), ("T", 0.3), ("C6", 0.15)])
def test_finite_groups_with_too_few_or_noisy_copies_are_not_called_continuous(name, noise):
    # 200 pairs do not show all 60 elements of I; errors of 10 degrees blur the others.
    if name == "C6":
        turn = cross_matrix(torch.tensor([0.0, 0.6, 0.8], dtype=torch.float64)) * math.pi / 3
        elements = torch.stack([torch.linalg.matrix_exp(n * turn) for n in range(6)])
    else:
        elements = SOLIDS[name]
    for seed in range(4):
        drawn = elements[torch.randint(len(elements), (400,), generator=source(seed))]
        found = find_subgroup(copies(drawn, objects=20, noise=noise), "so3", same=0.6)
        assert found.answer == name or "cannot be told" in found.answer


@pytest.mark.parametrize("folds", [1, 2, 4])
def test_uneven_angles_are_not_called_a_group(folds):
    generator = source(folds)
    angle = 2 * math.pi * torch.rand(2000, 1, 1, generator=generator, dtype=torch.float64)
    kept = torch.rand(2000, generator=generator) < (1 + (folds * angle[:, 0, 0]).cos()) / 2
    upright = cross_matrix(torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64))
    turned = copies(torch.linalg.matrix_exp(angle[kept][:600] * upright))
    assert "not spread evenly" in find_subgroup(turned, "so3").answer


def test_rotations_and_distances_agree_with_their_definitions():
    turns = SPACE.sample(40, source(11))
    x = torch.randn(40, 5, 3, generator=source(12), dtype=torch.float64)
    torch.testing.assert_close(kabsch(x, x @ turns.mT), turns)
    third = SOLIDS["T"]
    assert wasserstein(third, third.flip(0)) == pytest.approx(0, abs=1e-7)
    one = torch.eye(3, dtype=torch.float64).expand(4, 3, 3)
    assert wasserstein(one, SOLIDS["C4"]) == pytest.approx(math.pi / 2)
    assert len(modes(third.repeat(9, 1, 1), 0.01)) == 12
    assert len(modes(turns, 0.01)) == 0


@pytest.mark.parametrize("points", [torch.zeros(40, 5, 3), torch.randn(40, 1, 3)])
def test_points_that_tell_no_rotation_are_refused(points):
    with pytest.raises(ValueError, match="2 directions from the origin"):
        find_subgroup(points)
    line = torch.arange(1.0, 5.0)[:, None] * torch.randn(40, 1, 3)
    with pytest.raises(ValueError, match="2 directions from the origin"):
        find_subgroup(line)
