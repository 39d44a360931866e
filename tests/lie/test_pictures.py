"""Planar fields and colours that leave pictures as they are are found, and others are not."""

import math

import pytest
import torch
from benchmarks.generators.planted_pictures import (
    HEIGHTS,
    RAYS,
    RINGS,
    SIDE,
    blobs,
    scattered,
    swirled,
    turned,
    uneven,
)

import symmetries
from symmetries.actions import ImageAction
from symmetries.analysis import picture_generators
from symmetries.analysis.lie_generators import load_group
from symmetries.lie.picture_certificates import certify_distribution
from symmetries.lie.pictures import PictureProblem, gradients, picture_fields, plane_points
from symmetries.lie.planar_names import ALIKE, nearest_named


def test_pictures_of_all_classes_are_looked_at_in_sorted_data(monkeypatch):
    monkeypatch.setattr(picture_generators, "MOST", 256 * 6 * 60)
    seen = []

    def certify(tests, family, pictures, *others):
        seen.append(pictures)
        return certify_distribution(tests, family, pictures, *others)

    monkeypatch.setattr(picture_generators, "certify_distribution", certify)
    pictures = scattered(200)
    pictures[100:, :, 0, 0] = 1e-3  # tells the second class
    symmetries.generators(pictures)
    assert len(seen[0]) == 60
    assert 15 < int((seen[0][:, 0, 0, 0] > 5e-4).sum()) < 45


def test_velocities_are_those_of_small_motions():
    pictures = scattered(4).double()
    family = picture_fields("affine", (1, SIDE, SIDE))
    names = list(family.names)
    for parameter, terms in (
        ("rotation", {"y d/dx": -1.0, "x d/dy": 1.0}),
        ("shift_x", {"d/dx": 1.0}),
        ("shift_y", {"d/dy": 1.0}),
        ("scale_x", {"x d/dx": 1.0}),
    ):
        group = symmetries.Affine2(parameter)
        action = ImageAction(group, interpolation="bspline")
        small = torch.full((1,), 1e-3, dtype=torch.float64)
        moved = action(group.exp(small), pictures) - action(group.exp(-small), pictures)
        theta = torch.zeros(6, dtype=torch.float64)
        for name, value in terms.items():
            theta[names.index(name)] = value
        mine = torch.einsum("npi,p->ni", family.velocities(pictures), theta)
        wanted = (moved / 2e-3).flatten(1)
        assert (mine - wanted).norm() < 0.1 * wanted.norm()


def test_gradients_point_right_and_up():
    points = plane_points(16, 20)
    ramp = (2 * points[:, 0] + 3 * points[:, 1]).reshape(1, 1, 16, 20)
    right, up = gradients(ramp)
    torch.testing.assert_close(right, torch.full_like(ramp, 2.0))
    torch.testing.assert_close(up, torch.full_like(ramp, 3.0))


@pytest.mark.parametrize(
    ("model", "fields", "names"),
    [
        (RINGS, "affine", ["rotation"]),
        (RINGS, "cubic", ["rotation", "swirl"]),
        (RAYS, "affine", ["zoom"]),
        (HEIGHTS, "affine", ["shift along x", "shear along x"]),
        (swirled, "affine", []),
        (swirled, "cubic", ["swirl"]),
        (uneven, "affine", []),
        (uneven, "cubic", []),
        (uneven, "fourier", []),
    ],
)
def test_planted_symmetries_of_tasks_are_found(model, fields, names):
    found = symmetries.generators(scattered(600), model=model, fields=fields)
    assert found.dimension == (len(names), len(names))
    assert [part.text.partition(":")[0] for part in found.generators] == names
    assert all(part.high <= 0.1 for part in found.generators)


def test_sets_of_pictures_that_are_turned_have_the_rotation(tmp_path):
    found = symmetries.generators(turned(6000, 0, 2 * math.pi))
    assert (found.name, found.dimension) == ("so(2)", (1, 1))
    assert found.law == "density"
    assert found.fitted.planar
    some = turned(2, 1, 0.0)
    moved = ImageAction(found.fitted)(found.fitted.exp(torch.tensor([[math.pi / 2]] * 2)), some)
    assert (moved - some).norm() > 0.1 * some.norm()
    stored = load_group(found.save(tmp_path / "generators.json"), pictures=True)
    torch.testing.assert_close(stored.generators, found.fitted.generators)
    page = found.to_html()
    assert "rotation" in page
    assert page.count("<svg") == 2


@pytest.mark.parametrize("angles", [0.5, 2.0])
def test_sets_that_are_turned_a_little_do_not(angles):
    assert symmetries.generators(turned(3000, 0, angles)).dimension[0] == 0


def test_sets_of_one_shape_in_the_middle_that_is_turned_have_the_rotation():
    # Such pictures are even, and shifts move them where no two of them differ.
    x, y = plane_points(24, 24).T
    angle = 2 * math.pi * torch.rand(3000, 1, generator=torch.Generator().manual_seed(7)).double()
    along, across = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
    pictures = torch.exp(-(along**2) / 0.3 - across**2 / 0.03).reshape(-1, 1, 24, 24)
    found = symmetries.generators(pictures.float())
    assert (found.name, found.dimension) == ("so(2)", (1, 1))
    values = [part.defect for part in found.spectrum]
    assert values == sorted(values)
    assert values[1] > 0.5  # shifts, too


def test_copies_of_pictures_count_once():
    few = turned(40, 0, 2 * math.pi).repeat(30, 1, 1, 1)
    assert "40 pictures, and at least 200" in symmetries.generators(few).answer
    with pytest.raises(ValueError, match="pictures that differ"):
        symmetries.generators(torch.ones(300, 1, 16, 16))


def test_models_that_jump_are_not_certified():
    found = symmetries.generators(
        scattered(600), model=lambda x: RINGS(x) + (x[..., 16:].sum((1, 2, 3)) > 6)[:, None]
    )
    assert found.dimension == (0, 6)
    assert "it has jumps" in found.answer


def test_fields_that_are_only_like_a_named_one_are_not_called_so():
    # All the ink: fields without divergence that end at the border; the rotation does not.
    places = 0.5 * torch.randn(600, 3, 2, generator=torch.Generator().manual_seed(0)).double()
    found = symmetries.generators(
        blobs(places), model=lambda x: x.sum((1, 2, 3))[:, None], fields="cubic"
    )
    assert found.name == "like rotation"


def test_colours():
    generator = torch.Generator().manual_seed(0)
    pictures = torch.rand(500, 3, 16, 16, generator=generator)
    grey = torch.tensor([0.3, 0.6, 0.1])

    def brightness(x):
        return torch.einsum("nchw,c->nhw", x, grey.to(x))[:, ::4, ::4].flatten(1).square()

    found = symmetries.generators(pictures, model=brightness, fields="colour")
    assert found.dimension == (6, 6)  # colours that have no brightness, times three
    assert found.data.inputs == ("r", "g", "b")
    for part in found.generators:
        matrix = torch.tensor(part.matrix)[:3, :3]
        assert float((grey @ matrix).norm()) < 0.05 * float(matrix.norm())
    with pytest.raises(ValueError, match="pictures with colours"):
        symmetries.generators(pictures[:, :1], model=brightness, fields="colour")


def test_a_function_that_no_field_changes_has_all_of_them():
    def corner(x):
        return x[:, :, :1, :1].flatten(1)

    generator = torch.Generator().manual_seed(0)
    pictures = scattered(300)
    pictures[:, :, :3, :3] = torch.rand(300, 1, 1, 1, generator=generator)  # flat there
    found = symmetries.generators(pictures, model=corner)
    assert found.dimension == (6, 6)


def test_wrong_input_is_refused():
    pictures = scattered(300)
    for options, text in (
        ({"y": torch.zeros(300)}, "y: expected nothing for pictures"),
        ({"fields": "linear"}, "fields: expected one of"),
        ({"fields": [lambda x: x]}, "fields: expected one of"),
        ({"model": lambda x: x.flatten(1)[:, :1] * 0}, "a function that varies"),
    ):
        with pytest.raises(ValueError, match=text):
            symmetries.generators(pictures, **options)
    with pytest.raises(ValueError, match="16 pixels"):
        symmetries.generators(pictures[:, :, :8, :8])
    assert "too few data" in symmetries.generators(pictures[:100]).answer


def test_names_of_fields():
    family = picture_fields("cubic", (1, 16, 16))
    row = torch.zeros(20, dtype=torch.float64)
    row[list(family.names).index("x d/dx")] = 1
    alike, name, _ = nearest_named(family, row)
    assert (name, round(alike, 6)) == ("stretch along x", 1.0)
    row[list(family.names).index("x y d/dy")] = 1
    assert nearest_named(family, row)[0] < ALIKE


def test_the_problem_measures_the_same_in_parts():
    family = picture_fields("affine", (1, SIDE, SIDE))
    problem = PictureProblem(RINGS, family, 3)
    pictures = scattered(90)
    whole = problem.spectrum(problem.measure(pictures)).defects
    parts = problem.measure(pictures[:50]).merge(problem.measure(pictures[50:]))
    torch.testing.assert_close(problem.spectrum(parts).defects, whole)
