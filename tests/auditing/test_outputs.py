"""Every kind of output: against code that was written independently, and with a planted truth."""

import itertools
import math

import pytest
import torch
from torch import nn

from symmetries.actions import NodeAction, PermutationAction, PointAction
from symmetries.auditing import audit_model, layer_equivariance
from symmetries.auditing.boxes import match_boxes, overlaps
from symmetries.auditing.elements import make_moves
from symmetries.auditing.representations import representation
from symmetries.auditing.sequences import edit_distance, read_sequences
from symmetries.groups import O3, SE3, SO3, Cyclic, Permutation

F64 = torch.float64


def quick(model, x, group, output=None, **options):
    options = {"layers": (), "progress": False} | options
    return audit_model(model, x, group, output=output, **options)


def pictures(n=6, c=1, side=8, seed=0):
    return torch.rand(n, c, side, side, generator=torch.Generator().manual_seed(seed), dtype=F64)


def points(n=10, p=5, seed=0):
    return torch.randn(n, p, 3, generator=torch.Generator().manual_seed(seed), dtype=F64)


def test_embeddings_against_a_loop():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 5)).double()
    x = pictures()
    found = quick(net, x, "c4", "embedding")
    cosines, errors = [], []
    for image, k in itertools.product(x, (1, 2, 3)):
        a, b = (net(one[None])[0].detach() for one in (image, image.rot90(k, (1, 2))))
        cosines.append(float(a @ b / a.norm() / b.norm()))
        errors.append(float((a - b).norm() / a.norm()))
    assert found.output == "embedding"
    assert found.measures["cosine"].mean == pytest.approx(sum(cosines) / len(cosines))
    assert found.measures["relative_error"].mean == pytest.approx(sum(errors) / len(errors))
    assert found.measures["relative_error"].discretisation == 0
    assert found.agreement is None
    pooled = quick(lambda x: x.mean((2, 3)).expand(-1, 4), x, "d4", "embedding")
    assert pooled.measures["cosine"].mean == pytest.approx(1)


def test_a_scalar_has_its_units_and_its_spread():
    """An energy that depends on one axis by a planted share of a known size."""
    x = points(40)
    energy = lambda x: x.square().sum((1, 2))  # noqa: E731
    exact = quick(energy, x, SO3(), "scalar")
    assert exact.measures["absolute_error"].mean < 1e-12
    broken = quick(lambda x: energy(x)[:, None] + 0.1 * x[:, 0, :1], x, SO3(), "scalar")
    # |x - R x| of one coordinate of random points under uniform rotations, by plain sampling.
    r = SO3().haar(40, 400, generator=torch.Generator().manual_seed(5), dtype=F64)
    turned = torch.einsum("nsij,nj->nsi", r, x[:, 0])
    expected = 0.1 * float((turned[..., 0] - x[:, None, 0, 0]).abs().mean())
    found = broken.measures["absolute_error"]
    assert found.mean == pytest.approx(expected, rel=0.15)
    assert found.low < expected < found.high or abs(found.mean - expected) < 2e-2
    spread = float((energy(x) + 0.1 * x[:, 0, 0]).std())
    assert broken.measures["error_of_spread"].mean == pytest.approx(found.mean / spread)


def test_vectors_turn_along():
    """Forces of a harmonic well turn with the points; forces along a fixed axis do not."""
    x = points(20)
    forces = lambda x: -2 * x  # noqa: E731
    for group in (SO3(), O3()):
        assert quick(forces, x, group, "vector").measures["absolute_error"].mean < 1e-12
    shifted = quick(lambda x: -2 * (x - x.mean(1, keepdim=True)), x, SE3(), "vector")
    assert shifted.measures["absolute_error"].mean < 1e-12
    planted = torch.tensor([0.0, 0.0, 0.3], dtype=F64)
    found = quick(lambda x: forces(x) + planted, x, SO3(), "vector", samples=400)
    # |p - R p| of a fixed vector under uniform rotations: 4/3 of its length.
    assert found.measures["absolute_error"].mean == pytest.approx(0.4, abs=0.01)
    assert found.measures["largest_error"].mean == pytest.approx(0.4, abs=0.01)
    with pytest.raises(ValueError, match="output: expected vectors"):
        quick(lambda x: x.flatten(1), x, SO3(), "vector")


def test_a_representation_of_ones_own():
    """Magnetic moments are pseudovectors: right with a law of one's own, wrong as vectors."""
    x = torch.cat((points(8, 4, 1), points(8, 4, 2)), -1)  # positions and velocities
    act = NodeAction(O3(), ("vector", "vector"))
    moment = lambda x: torch.linalg.cross(x[..., :3], x[..., 3:]).sum(1)  # noqa: E731
    law = NodeAction(O3(), ("pseudovector",))
    assert quick(moment, x, act, law).measures["relative_error"].mean < 1e-12
    assert quick(moment, x, act, "vector").measures["relative_error"].mean > 0.5
    per_node = lambda x: x.square().sum(-1, keepdim=True)  # noqa: E731
    permuted = quick(per_node, x, Permutation(4), PermutationAction("s4"))
    assert permuted.measures["relative_error"].mean == 0
    assert quick(per_node, x, Permutation(4), "embedding").measures["relative_error"].mean > 0.1


def test_dense_maps_and_their_borders():
    """Zero padding breaks a circular law at the border only, and that is what is said."""
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 3, 3, padding=1, bias=True).double()
    conv.weight.data = (conv.weight.data + conv.weight.data.rot90(1, (2, 3))) / 2
    conv.weight.data = (conv.weight.data + conv.weight.data.rot90(2, (2, 3))) / 2
    x = pictures(side=20)
    exact = quick(conv, x, "c4")  # found: (N, C, H, W) is a map
    assert exact.output == "map"
    assert exact.measures["relative_error"].mean < 1e-12
    assert exact.measures["agreement"].mean == 1
    net = nn.Sequential(conv, nn.Tanh())
    shifted = quick(net, x, "t5", "map")  # periodic shifts, but not of the padding
    by_hand = []
    for image, k in itertools.product(x, range(1, 5)):
        still, moved = (net(one[None])[0].detach() for one in (image, image.roll(4 * k, 2)))
        by_hand.append(float((moved - still.roll(4 * k, 2)).norm() / still.norm()))
    assert shifted.measures["relative_error"].mean == pytest.approx(sum(by_hand) / len(by_hand))
    broken = nn.Sequential(conv, _Gradient())
    assert quick(broken, x, "c4").measures["relative_error_inside"].mean > 0.1


class _Gradient(nn.Module):
    """Adds a ramp from left to right: an absolute position."""

    def forward(self, x):
        return x + torch.linspace(0, 1, x.shape[-1], dtype=x.dtype)


def test_maps_over_volumes_against_a_turn_by_hand():
    """A quarter turn about z turns the last two axes; a ramp along x stays where it is."""
    x = torch.rand(3, 1, 6, 6, 6, generator=torch.Generator().manual_seed(0), dtype=F64)
    ramp = torch.linspace(0, 1, 6, dtype=F64)
    moves = make_moves("so3", x, samples=1)
    quarter = SO3().exp(torch.tensor([0.0, 0.0, math.pi / 2], dtype=F64))
    still, moved = x + ramp, x.rot90(1, (3, 4)) + ramp
    found = representation("map").compare(moves, quarter, still, moved, x)
    expected = still.rot90(1, (3, 4))
    error = (expected - moved).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
    torch.testing.assert_close(found["relative_error"], error)
    inner = (..., slice(1, 5), slice(1, 5), slice(1, 5))
    a, b = expected[inner].flatten(1), moved[inner].flatten(1)
    torch.testing.assert_close(found["relative_error_inside"], (a - b).norm(dim=1) / a.norm(dim=1))
    smooth = nn.functional.interpolate(x, (12, 12, 12), mode="trilinear")
    assert quick(lambda x: x.square(), smooth, "so3").output == "map"  # found by its shape
    good, bad = (
        quick(model, smooth, "so3", half_width=0.3).measures["relative_error_inside"].mean
        for model in (lambda x: 2 * x, lambda x: 2 * x + torch.linspace(0, 1, 12, dtype=F64))
    )
    assert good < 1e-9 < 0.02 < bad


def test_layers_over_volumes_move_along():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv3d(1, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(432, 3)).double()
    x = torch.rand(4, 1, 6, 6, 6, dtype=F64)
    rows = {row.name: row for row in layer_equivariance(net, x, SO3(), half_width=0.2)}
    assert rows["0"].law == rows["1"].law == "equivariance"
    assert rows["0"].error is not None


def brightest(x):
    """Column and row of the brightest pixel, (N, 1, 2)."""
    place = x[:, 0].flatten(1).argmax(1)
    return torch.stack((place % x.shape[-1], place // x.shape[-1]), -1)[:, None].to(x.dtype)


@pytest.mark.parametrize("size", [(9, 9), (8, 8), (7, 10)])
def test_keypoints_are_pixels_and_move_along(size):
    """Where the brightest pixel goes is read off the moved picture itself."""
    x = torch.zeros(5, 1, *size, dtype=F64)
    for i, (row, column) in enumerate(((3, 3), (4, 5), (2, 4), (5, 3), (3, 6))):
        x[i, 0, row, column] = 1
    group = "d4" if size[0] == size[1] else "flip_x"
    assert quick(brightest, x, group, "points").measures["absolute_error"].mean < 1e-12
    fixed = lambda x: brightest(x) * 0 + torch.tensor([2.0, 3.0], dtype=F64)  # noqa: E731
    found = quick(fixed, x, "flip_x", "points").measures
    expected = abs((size[1] - 1 - 2) - 2)  # the mirrored column, against the same column
    assert found["absolute_error"].mean == pytest.approx(expected)
    assert found["error_of_side"].mean == pytest.approx(expected / max(size))
    stays = quick(lambda x: brightest(x[:, :1]), x.expand(-1, 3, -1, -1), "hue", "points")
    assert stays.measures["absolute_error"].mean == 0


def test_keypoints_that_leave_the_frame_do_not_count():
    x = pictures(2)
    moves = make_moves("shift_x", x, samples=1)
    left = moves.action.group.exp(torch.tensor([-0.5], dtype=F64))  # by two of eight pixels
    still = torch.tensor([[[0.0, 4.0], [4.0, 4.0]], [[0.0, 4.0], [1.0, 4.0]]], dtype=F64)
    moved = torch.tensor([[[7.0, 7.0], [2.0, 4.0]], [[-2.0, 5.0], [-1.0, 7.0]]], dtype=F64)
    found = representation("points").compare(moves, left, still, moved, x)
    assert found["absolute_error"].tolist() == pytest.approx([0.0, 2.0])  # of the second, all left
    assert found["largest_error"].tolist() == pytest.approx([0.0, 3.0])


def test_points_of_space_move_along():
    x = points(12)
    middle = lambda x: x.mean(1)  # noqa: E731
    assert quick(middle, x, SE3(), "points").measures["absolute_error"].mean < 1e-12
    assert quick(middle, x, SE3(), "vector").measures["absolute_error"].mean > 0.1
    with pytest.raises(ValueError, match="output: expected points"):
        quick(lambda x: x[:, 0, :2], x, SO3(), "points")


def test_a_law_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"output: expected act.element, output. of the output's"):
        quick(lambda x: x.mean((2, 3)), pictures(c=3), "c4", lambda element, y: y[:, :1])


def test_only_the_border_breaks():
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 2, 3, padding=1, bias=False).double()
    x = torch.ones(4, 1, 20, 20, dtype=F64)

    def padded(x):  # inside all is constant; at the left border it is not
        y = conv(x)
        return torch.where(torch.arange(20) < 1, y + 1, y.mean((2, 3), keepdim=True))

    found = quick(padded, x, "c4", "map")
    assert found.measures["relative_error"].mean > 0.1
    assert found.measures["relative_error_inside"].mean < 1e-6
    assert found.measures["share_at_the_border"].mean == pytest.approx(1)


def blobs(n=6, side=24, seed=0):
    """Pictures with two bright rectangles each."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.zeros(n, 1, side, side)
    for image in x:
        for value, offset in ((1.0, 0), (0.5, side // 2)):
            top = int(torch.randint(2, side // 2 - 7, (), generator=generator))
            left = int(torch.randint(2, side // 2 - 7, (), generator=generator)) + offset
            image[0, top : top + 4, left : left + 6] = value
    return x


def detect(x, lazy=False):
    """Exact boxes around both values; lazy: only of what is in the left half."""
    found = []
    for image in x:
        boxes = []
        for value in (1.0, 0.5):
            rows, columns = (image[0] == value).nonzero(as_tuple=True)
            if len(rows) and (not lazy or float(columns.float().mean()) < image.shape[-1] / 2):
                ends = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
                boxes.append([float(end) for end in ends])
        found.append({"boxes": torch.tensor(boxes).reshape(-1, 4)})
    return found


@pytest.mark.parametrize("group", ["c4", "d4", "flip_x", "t4"])
def test_boxes_are_matched_after_mapping_back(group):
    x = blobs()
    if group == "t4":
        with pytest.raises(ValueError, match=r"output: expected|matrices"):
            quick(detect, x, group)
        return
    found = quick(detect, x, group)
    assert found.output == "boxes"
    assert found.measures["matched"].mean == 1
    assert found.measures["overlap"].mean == pytest.approx(1)


def test_a_detector_that_sees_half_of_the_picture():
    """As it is, it finds the left box; the flip shows it the other one."""
    x = blobs()
    found = quick(lambda x: detect(x, lazy=True), x, "flip_x")
    assert found.measures["matched"].mean == 0
    assert found.measures["matched"].high < 0.5


def test_overlaps_against_counting_pixels():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(0, 12, (5, 2, 2), generator=generator).sort(1).values for _ in range(2))
    boxes = [torch.cat((c[:, 0], c[:, 1] + 1), 1).double() for c in (a, b)]
    found = overlaps(*boxes)
    for i, j in itertools.product(range(5), range(5)):
        masks = []
        for x1, y1, x2, y2 in (boxes[0][i].int().tolist(), boxes[1][j].int().tolist()):
            mask = torch.zeros(16, 16, dtype=torch.bool)
            mask[y1:y2, x1:x2] = True
            masks.append(mask)
        expected = float((masks[0] & masks[1]).sum() / (masks[0] | masks[1]).sum())
        assert float(found[i, j]) == pytest.approx(expected)


def test_matching_uses_every_box_once():
    one = torch.tensor([[0.0, 0, 10, 10]])
    assert match_boxes(one, one.repeat(3, 1)) == {"matched": 0.5, "overlap": 1.0}  # 2 x 1 of 4
    assert match_boxes(one[:0], one[:0]) == {"matched": 1.0, "overlap": 1.0}
    assert match_boxes(one, one[:0]) == {"matched": 0.0, "overlap": 0.0}
    assert match_boxes(one, one + 20) == {"matched": 0.0, "overlap": 0.0}


def test_boxes_of_the_same_place_are_paired_by_their_labels():
    """Two classes at one place, in another order; a third that changes its class."""
    a = torch.tensor([[0.0, 0, 10, 10, 1], [0, 0, 10, 10, 2], [50, 50, 60, 60, 3]])
    b = torch.tensor([[0.0, 0, 10, 9, 2], [0, 0, 10, 9, 1], [50, 50, 60, 60, 4]])
    found = match_boxes(a, b)
    assert found == pytest.approx({"matched": 1.0, "overlap": 2.8 / 3, "agreement": 2 / 3})


def test_classes_of_boxes_that_change_in_a_mirror():
    """Planted: the class is whether a block stands left of the middle."""

    def named(x):
        return [one | {"labels": (one["boxes"][:, 0] < 12).long()} for one in detect(x)]

    found = quick(named, blobs(), "flip_x").measures
    assert (found["matched"].mean, found["agreement"].mean) == (1, 0)
    upside_down = quick(named, blobs(), "flip_y").measures
    assert (upside_down["matched"].mean, upside_down["agreement"].mean) == (1, 1)
    with pytest.raises(ValueError, match=r"one label for each box, got labels of shape \(1,\)"):
        quick(lambda x: [one | {"labels": [0]} for one in detect(x)], blobs(), "c4")
    some = lambda x: [*detect(x)[:-1], named(x)[-1]]  # noqa: E731
    with pytest.raises(ValueError, match="labels for all examples, or for none"):
        quick(some, blobs(), "c4")


def test_sequences_by_edit_distance():
    """A reader of columns: the word is reversed when the picture is flipped."""
    x = torch.zeros(3, 1, 2, 4)
    for row, word in zip(x, ([1, 2, 3, 4], [1, 2, 2, 1], [5, 6, 7, 8]), strict=True):
        row[0, :] = torch.tensor(word).float()

    def reader(x):
        return ["".join(chr(96 + int(v)) for v in image[0, 0]) for image in x]

    found = quick(reader, x, "flip_x")
    assert found.output == "sequence"
    expected = [4 / 4, 0, 4 / 4]  # abcd and dcba have no letter in its place, abba is a palindrome
    assert found.measures["edit_distance"].mean == pytest.approx(sum(expected) / 3)
    assert found.measures["agreement"].mean == pytest.approx(1 / 3)
    scores = torch.eye(9)[x[:, 0, 0].long()]
    assert read_sequences(scores, 3)[0] == [1, 2, 3, 4]
    assert read_sequences(torch.tensor([[0, 1, 1, 0, 1, 2]]), 1, blank=0) == [[1, 1, 2]]


def slow_distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    return min(
        slow_distance(a[1:], b) + 1,
        slow_distance(a, b[1:]) + 1,
        slow_distance(a[1:], b[1:]) + (a[0] != b[0]),
    )


def test_edit_distance_against_a_recursion():
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        lengths = torch.randint(0, 6, (2,), generator=generator).tolist()
        a, b = (torch.randint(0, 3, (n,), generator=generator).tolist() for n in lengths)
        assert edit_distance(a, b) == slow_distance(a, b)


def test_several_outputs_by_name():
    x = pictures()
    both = lambda x: {"classes": x.flatten(1)[:, :3], "heat": x * 2}  # noqa: E731
    assert quick(both, x, "c4", "heat:map").measures["relative_error"].mean < 1e-12
    direct = quick(lambda x: x.flatten(1)[:, :3], x, "c4")
    assert quick(both, x, "c4", "classes:logits").agreement == direct.agreement
    listed = lambda x: (x.flatten(1)[:, :3], x * 2)  # noqa: E731
    assert quick(listed, x, "c4", "1:map").measures["relative_error"].mean < 1e-12
    assert quick(both, x, "c4", "heat").output == "map"  # a name alone: its kind is found
    assert quick(both, x, "c4", "classes").agreement == direct.agreement
    with pytest.raises(ValueError, match="output: expected an output among classes, heat"):
        quick(both, x, "c4", "boxes_of:map")


def test_what_cannot_be_told_is_asked():
    x = pictures()
    with pytest.raises(ValueError, match="say what it is: output= one of 'embedding'"):
        quick(lambda x: x.flatten(2), x, "c4")
    with pytest.raises(ValueError, match=r"output: expected a kind: logits, .*got 'real'"):
        quick(lambda x: x, x, "c4", "real")
    with pytest.raises(ValueError, match=r"a dense map \(N, C, H, W\)"):
        quick(lambda x: x.flatten(1), x, "c4", "map")
    with pytest.raises(ValueError, match="same outputs when called twice"):
        quick(lambda x: torch.randn(len(x), 4), x, "c4", "embedding")
    with pytest.raises(ValueError, match="output: expected boxes in images, got SO3"):
        quick(lambda x: [torch.ones(1, 4)] * len(x), points(), SO3(), "boxes")
    with pytest.raises(ValueError, match="output: expected maps over images"):
        quick(lambda x: torch.rand(len(x), 1, 4, 4) * 0, points(), SO3(), "map")


def test_resampling_is_told_apart_from_the_model():
    """A pointwise map commutes with every move: what is left of its error is resampling alone."""
    generator = torch.Generator().manual_seed(0)
    smooth = torch.nn.functional.interpolate(
        torch.rand(6, 1, 5, 5, generator=generator, dtype=F64), (40, 40), mode="bicubic"
    )
    found = quick(lambda x: x.clamp(0, 1).square(), smooth, "rotation", "map", range="rotation=20")
    inside = found.measures["relative_error_inside"]
    assert inside.mean < 0.02
    assert inside.mean < 3 * inside.discretisation
    fixed = quick(lambda x: x + torch.linspace(0, 1, 40, dtype=F64), smooth, "rotation", "map",
                  range="rotation=20")  # fmt: skip
    assert fixed.measures["relative_error_inside"].mean > 3 * inside.mean


def test_a_quarter_turn_of_a_vector_of_the_plane():
    """An edge direction turns with the picture: planted truth for vectors over images."""
    x = pictures(side=9)

    def centre(x):  # centre of mass, x right and y up
        ramp = torch.linspace(-1, 1, 9, dtype=F64)
        total = x.sum((1, 2, 3))
        return torch.stack((
            (x * ramp).sum((1, 2, 3)) / total, (x * -ramp[:, None]).sum((1, 2, 3)) / total
        ), 1)  # fmt: skip

    assert quick(centre, x, Cyclic(4), "vector").measures["absolute_error"].mean < 1e-12
    assert PointAction(Cyclic(4))(torch.tensor(1), centre(x)).shape == (6, 2)
    assert math.isfinite(quick(centre, x, "d4", "vector").measures["relative_error"].mean)


def test_tokens_are_whole_numbers():
    """A bag of words stays when it is reversed; the word in front does not."""
    torch.manual_seed(0)
    words = nn.Embedding(9, 4)
    tokens = torch.randint(0, 9, (20, 6), generator=torch.Generator().manual_seed(0))
    bag = nn.Sequential(words, nn.Flatten(1), nn.Unflatten(1, (6, 4)))
    assert quick(lambda x: bag(x).sum(1), tokens, "flip_x").logit_invariance.mean < 1e-10
    first = quick(lambda x: bag(x)[:, 0], tokens, "flip_x").logit_invariance.mean
    ends = words.weight.detach()[tokens[:, [0, -1]]]
    assert first == pytest.approx(float((ends[:, 0] - ends[:, 1]).square().sum(1).mean() / 2))
    with pytest.raises(ValueError, match="x: expected floating-point"):
        quick(lambda x: bag(x)[:, 0], tokens, "so3")


def test_graphs_and_sets_are_told_apart():
    with pytest.raises(ValueError, match="group: expected an action on sets or on graphs"):
        quick(lambda a: a.sum(1), torch.rand(5, 4, 4), "s4")
