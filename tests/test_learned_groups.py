"""Learned groups are stored as text, read from files, and used by the rest of the library."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import symmetries
from symmetries.analysis.lie_generators import load_group
from symmetries.cli import app
from symmetries.cli.options import group_or_file
from symmetries.groups import Colour, MatrixGroup, Product
from symmetries.groups.names import group_name, parse_group


@pytest.fixture(scope="module")
def circle(tmp_path_factory):
    """The result of a function of the radius, saved."""
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0)).double()
    found = symmetries.generators(x, model=lambda x: x.square().sum(-1))
    return found, found.save(tmp_path_factory.mktemp("circle") / "generators.json")


def test_a_learned_group_is_rebuilt_from_its_name(circle):
    group = circle[0].fitted
    again = parse_group(group_name(group))
    assert again == group
    assert again.tolerance == group.tolerance
    assert again.parameters == group.parameters


def test_a_product_with_a_learned_group_has_no_name():
    turn = torch.zeros(1, 3, 3)
    turn[0, 0, 1], turn[0, 1, 0] = -1, 1
    with pytest.raises(ValueError, match="a group that has a name"):
        group_name(Product(MatrixGroup(turn), Colour("hue")))


@pytest.mark.parametrize(
    "text",
    [
        "matrix:",
        "matrix:{}",
        "matrix:[1]",
        "matrix:" + "[" * 100_000,
        'matrix:{"generators":[[[1]]],"names":5,"units":["a"],"tolerance":1}',
        'matrix:{"generators":[[[1e999]]],"names":["a"],"units":["a"],"tolerance":1}',
        'matrix:{"generators":[[[1,2]]],"names":["a"],"units":["a"],"tolerance":1}',
        'matrix:{"generators":[' + "[" + ",".join(["[1]"] * 20_000) + "]]}",
    ],
)
def test_texts_that_are_no_group_are_refused(text):
    with pytest.raises(ValueError, match="expected"):
        parse_group(text)


def test_a_file_of_generators_moves_points_and_pictures(circle):
    found, path = circle
    group = load_group(path)
    torch.testing.assert_close(group.generators, found.fitted.generators)
    planar = load_group(path, pictures=True)
    assert planar.planar
    pictures = torch.rand(2, 1, 9, 9, generator=torch.Generator().manual_seed(1))
    moved = symmetries.ImageAction(planar)(planar.exp(torch.tensor([0.4])), pictures)
    sign = float(planar.generators[0, 1, 0].sign())  # positive turns to the left, as rotation does
    rotation = symmetries.ImageAction("rotation")
    expected = rotation(rotation.group.exp(torch.tensor([0.4 * sign])), pictures)
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-4)


def test_commands_read_the_file_where_they_take_a_group(circle, tmp_path):
    name = group_or_file(str(circle[1]))
    assert parse_group(name).planar
    assert group_or_file("c4") == "c4"
    with pytest.raises(ValueError, match=r"an existing generators\.json"):
        group_or_file(str(tmp_path / "none.json"))
    x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0)).double()
    space = symmetries.generators(x, model=lambda x: x.square().sum(-1)).save(tmp_path / "g.json")
    assert load_group(space).dim == 3
    with pytest.raises(ValueError, match="generators of two coordinates"):
        group_or_file(str(space))
    none = symmetries.generators(x, model=lambda x: (x**3).sum(-1) + x[:, 0] * x[:, 1])
    with pytest.raises(ValueError, match="no symmetry"):
        load_group(none.save(tmp_path / "none.json"))


def test_learned_generators_augment_pictures(circle, tmp_path):
    images = torch.zeros(6, 1, 15, 15)
    images[:, :, 4:6, 7] = 1.0  # above the middle
    new = symmetries.augment(circle[0], (images, torch.arange(6)), copies=20, progress=False)
    assert new.images.shape == (120, 1, 15, 15)
    assert new.labels.tolist() == torch.arange(6).repeat_interleave(20).tolist()
    ink = new.images[:, 0] / new.images[:, 0].sum((1, 2), keepdim=True)
    axis = torch.arange(15.0) - 7
    x, y = (ink.sum(1) * axis).sum(1), (ink.sum(2) * axis).sum(1)
    torch.testing.assert_close((x**2 + y**2).sqrt(), torch.full((120,), 2.5), rtol=0.1, atol=0)
    quarters = torch.atan2(y, x).div(torch.pi / 2).floor().unique()
    assert len(quarters) == 4  # turned by any angle
    again = symmetries.augment(str(circle[1]), images, copies=20, progress=False)
    assert torch.equal(again.images, new.images)
    np.savez(tmp_path / "pictures.npz", images=(images[:, 0] * 255).numpy().astype(np.uint8))
    words = ["augment", str(circle[1]), str(tmp_path / "pictures.npz"), "--copies", "20"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "new.npz"), "--quiet"])
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "new.npz") as file:
        assert file["images"].shape == (120, 15, 15)


def test_a_classifier_with_a_learned_group_is_stored_and_loaded(circle, tmp_path):
    planar = load_group(circle[1], pictures=True)
    rng = np.random.default_rng(0)
    pictures = rng.random((12, 1, 8, 8)).astype(np.float32)
    labels = np.repeat([0, 1], 6)
    model = symmetries.InvariantClassifier(planar, steps=2, random_state=0).fit(pictures, labels)
    model.save(tmp_path / "model")
    again = symmetries.InvariantClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(
        again.predict_proba(pictures), model.predict_proba(pictures), atol=1e-6
    )


@pytest.mark.parametrize(
    "matrix",
    [[[1]], [[0, 1, 2], [0]], [[0] * 3] * 3, [[1e308] * 3] * 3, [[]], [], [[0, 1], [1, 0], [1, 1]]],
)
def test_forged_matrices_are_refused_in_our_words(circle, tmp_path, matrix):
    content = json.loads(circle[1].read_text())
    del content["sha256"]
    content["generators"][0]["matrix"] = matrix
    (tmp_path / "g.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="path: expected square matrices of one size"):
        group_or_file(str(tmp_path / "g.json"))
