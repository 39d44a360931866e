"""Where a network breaks, and how fast: planted layers are found, derivatives are exact."""

import math

import pytest
import torch
from torch import nn

from symmetries.actions import Action, ImageAction, SequenceAction
from symmetries.auditing import audit_model, layer_equivariance
from symmetries.auditing.contributions import layer_contributions
from symmetries.auditing.lie import lie_derivative
from symmetries.groups import SO3, Affine2, Cyclic, Flip

F64 = torch.float64


class Turned(nn.Module):
    """A convolution whose filters are the same in all four poses."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        weight = self.conv.weight.data
        self.conv.weight.data = sum(weight.rot90(k, (2, 3)) for k in range(4)) / 4

    def forward(self, x):
        return self.conv(x)


class Positions(nn.Module):
    """Adds a number to each place: an absolute position."""

    def __init__(self, side, size=0.3):
        super().__init__()
        self.table = nn.Parameter(size * torch.randn(1, 1, side, side))

    def forward(self, x):
        return x + self.table


class Skipping(nn.Module):
    """Takes every other pixel from the corner: no filter before, and no centre."""

    def forward(self, x):
        return x[..., ::2, ::2].repeat_interleave(2, -1).repeat_interleave(2, -2)


def network(seed, side=12):
    """Invariant to quarter turns, layer by layer."""
    torch.manual_seed(seed)
    return nn.Sequential(
        Turned(1, 6), nn.ReLU(), nn.AvgPool2d(2), Turned(6, 6), nn.BatchNorm2d(6), nn.GELU(),
        Turned(6, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    ).eval()  # fmt: skip


def broken(seed):
    """A copy with one broken layer; its name in it."""
    net = network(seed)
    kind = seed % 4
    if kind == 0:  # filters that are not the same in all poses
        place = (0, 3, 6)[seed // 4 % 3]
        nn.init.kaiming_normal_(net[place].conv.weight)
        return net, f"{place}.conv"
    if kind == 1:
        net[5] = Positions(6)
        return net, "5"
    if kind == 2:
        net[7] = Skipping()
        return net, "7"
    net[1] = Positions(12)
    return net, "1"


def test_the_broken_layer_is_named_first():
    right = []
    for seed in range(20):
        net, name = broken(seed)
        x = torch.rand(6, 1, 12, 12, generator=torch.Generator().manual_seed(seed))
        found = layer_contributions(net, x, Cyclic(4))
        right.append(max(found, key=lambda key: found[key][0]) == name)
    assert sum(right) >= 19


def test_a_whole_network_adds_nothing():
    x = torch.rand(6, 1, 12, 12)
    found = layer_contributions(network(0), x, Cyclic(4))
    assert max(added for added, _ in found.values()) < 1e-5
    own = {"0", "3", "6"}  # operations of the modules around convolutions
    layers = {"0.conv", "1", "2", "3.conv", "4", "5", "6.conv", "7", "8", "9", "10"}
    assert set(found) == layers | own


def test_one_broken_layer_adds_the_whole_error():
    """With all others equivariant, its conjugate gives what the whole gives for moved inputs."""
    net, name = broken(1)
    net, x = net.double(), torch.rand(4, 1, 12, 12, dtype=F64)
    still = net(x)
    moved = [(net(x.rot90(k, (2, 3))) - still).square().sum() for k in (1, 2, 3)]
    total = (sum(moved) / 3).sqrt() / still.norm()
    added, alone = layer_contributions(net, x, Cyclic(4))[name]
    assert added == pytest.approx(float(total.detach()), rel=1e-6)  # filters are float32
    assert alone == 0


def test_audits_rank_layers():
    net, name = broken(3)
    x = torch.rand(6, 1, 12, 12)
    result = audit_model(net, x, "c4", steps=3, progress=False)
    ranked = sorted((row for row in result.layers if row.added), key=lambda row: -row.added)
    assert ranked[0].name == name
    assert ranked[0].added_alone == 0


def test_the_derivative_of_a_rotation_against_autograd():
    """f(R x) of points: d/dt by forward differentiation of the exact formula."""
    x = torch.randn(7, 4, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(12, 5, dtype=F64, generator=torch.Generator().manual_seed(1))

    def model(x):
        return torch.tanh(x.flatten(1) @ weight)

    rows = lie_derivative(model, x, SO3(), step=1e-4)
    for i, row in enumerate(rows):

        def along(t, i=i):
            return model(x @ SO3().exp(t * torch.eye(3, dtype=F64)[i]).mT)

        exact = torch.func.jacfwd(along)(torch.zeros((), dtype=F64))
        assert row.parameter == f"rotation_{'xyz'[i]}"
        assert row.error.mean == pytest.approx(float(exact.square().mean(1).mean()), rel=1e-5)
        assert row.rounding < 1e-12


def test_the_derivative_of_a_shift_is_a_difference_of_pixels():
    """Bilinear resampling shifts by h pixels: its derivative is the mean of both differences."""
    x = torch.rand(3, 1, 1, 16, dtype=F64)
    (row,) = lie_derivative(lambda x: x[:, 0, 0, 3:13], x, ImageAction(Affine2("shift_x")))
    line = x[:, 0, 0]
    expected = (line[:, 2:12] - line[:, 4:14]) / 2 * (16 / 2)  # right by t half-images
    # There are 16 / 2 pixels in a half-image; the picture goes right, so values come from the left.
    assert row.error.mean == pytest.approx(float(expected.square().mean(1).mean()), rel=1e-6)
    assert (row.unit, row.name) == ("half-image", "")


def test_the_derivative_of_a_map_in_closed_form():
    """Of x + p it is -X p, whatever x is: the output is moved back, not on."""
    generator = torch.Generator().manual_seed(0)
    x = torch.zeros(3, 1, 1, 16, dtype=F64)
    x[..., 4:12] = torch.rand(3, 1, 1, 8, generator=generator, dtype=F64)
    table = torch.zeros(16, dtype=F64)
    table[3:13] = torch.rand(10, generator=generator, dtype=F64)
    act = ImageAction(Affine2("shift_x"))
    (row,) = lie_derivative(lambda x: x + table, x, act)
    wide = torch.nn.functional.pad(table, (1, 1))
    slope = (wide[:-2] - wide[2:]) / 2 * (16 / 2)  # 16 / 2 pixels in a half-image
    again = act.undo(act.group.exp(torch.tensor([0.01], dtype=F64)), x)
    assert not torch.equal(again, x)
    assert row.error.mean == pytest.approx(float(slope.square().mean()), rel=0.02)
    (pointwise,) = lie_derivative(lambda x: 3 * x, x, act)
    assert pointwise.error.mean < 1e-9
    assert pointwise.error.discretisation < 1e-9  # blurs alike in both directions


class Tokens(nn.Module):
    """Maps (N, C, H, W) as tokens (N, 1 + H W, C), behind one of a class."""

    def forward(self, x):
        tokens = x.flatten(2).transpose(1, 2)
        return torch.cat((torch.zeros_like(tokens[:, :1]), tokens), 1)


def test_the_lie_derivative_of_tokens_is_that_of_the_map_they_were():
    """The class token is constant: what is measured of n tokens is n / (n + 1) of the map."""
    torch.manual_seed(0)
    maps, last = nn.Conv2d(1, 5, 4, stride=4, dtype=F64), nn.Linear(5, 3, dtype=F64)
    model = nn.Sequential(maps, Tokens(), last, nn.Flatten())
    x = torch.rand(3, 1, 24, 24, dtype=F64)
    rows = lie_derivative(model, x, "translation", layers=["0", "1"])
    error = {(row.name, row.parameter): row.error.mean for row in rows}
    for parameter in ("shift_x", "shift_y"):
        assert error["1", parameter] == pytest.approx(error["0", parameter] * 36 / 37)
        assert error["0", parameter] > 0


def test_the_derivative_of_a_quadratic_form_in_closed_form():
    """Of x' A x under rotations about the axes it is 2 (G x)' A x; squared, over one component."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(9, 3, dtype=F64, generator=generator)
    a = torch.randn(3, 3, dtype=F64, generator=generator)
    a = a + a.mT
    rows = lie_derivative(lambda x: ((x @ a) * x).sum(1, keepdim=True), x, SO3(), step=1e-4)
    for axis, row in zip(torch.eye(3, dtype=F64), rows, strict=True):
        turned = torch.linalg.cross(axis.expand_as(x), x)
        expected = (2 * ((turned @ a) * x).sum(1)).square().mean()
        assert row.error.mean == pytest.approx(float(expected), rel=1e-5)


def test_equivariant_layers_have_no_derivative():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Sigmoid(), Positions(14), nn.Flatten()).double()
    smooth = torch.nn.functional.interpolate(
        torch.rand(4, 1, 4, 4, dtype=F64), (14, 14), mode="bicubic"
    )
    rows = lie_derivative(net[:3], smooth, "rotation", layers=("1", "2"))
    by_name = {row.name: row.error for row in rows}
    assert by_name["1"].mean < 0.2 * by_name["2"].mean
    assert by_name[""].mean == pytest.approx(by_name["2"].mean)
    with pytest.raises(ValueError, match="group: expected a continuous group"):
        lie_derivative(net, smooth, "c4")
    with pytest.raises(ValueError, match="layers: expected names among"):
        lie_derivative(net, smooth, "rotation", layers=("9",))


def test_the_step_does_not_matter_where_it_is_small():
    x = torch.randn(6, 3, 3, dtype=F64)
    model = lambda x: x[:, 0].square()  # noqa: E731
    means = [lie_derivative(model, x, SO3(), step=s)[0].error.mean for s in (1e-2, 1e-3, 1e-4)]
    assert means[0] == pytest.approx(means[2], rel=1e-2)
    assert means[1] == pytest.approx(means[2], rel=1e-4)
    assert math.isfinite(sum(means))


class Ramp(nn.Module):
    """Absolute positions along an axis, none at its ends."""

    def __init__(self, size, axis):
        super().__init__()
        shape = [1, 1, 1]
        shape[axis] = size
        table = torch.linspace(-1, 1, size, dtype=F64) * torch.hann_window(size, False, dtype=F64)
        self.table = nn.Buffer(table.reshape(shape))

    def forward(self, x):
        return x + self.table


@pytest.mark.parametrize("broken", ["1", "4"])
def test_layers_of_signals_and_sequences_are_ranked(broken):
    """A table of positions in one of two places, behind layers that move along exactly."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    sequences = torch.rand(6, 8, 3, dtype=F64, generator=generator)
    tables = [Ramp(8, 1) if name == broken else nn.Identity() for name in ("1", "4")]
    head = (nn.Linear(3, 5), tables[0], nn.Tanh(), nn.Linear(5, 4), tables[1], nn.Tanh())
    net = nn.Sequential(*head, Mean(1), nn.Linear(4, 2)).double()
    for group in ("flip_x", "t4"):
        found = {name: one[0] for name, one in layer_contributions(net, sequences, group).items()}
        assert max(found, key=found.get) == broken
        assert all(value < 1e-9 for name, value in found.items() if name != broken)
    smooth = nn.functional.interpolate(sequences.mT, 64, mode="linear")  # (6, 3, 64)
    smooth = smooth * torch.hann_window(64, dtype=F64)
    tables = [Ramp(64, 2) if name == broken else nn.Identity() for name in ("1", "4")]
    head = (nn.Conv1d(3, 5, 1), tables[0], nn.Tanh(), nn.Conv1d(5, 4, 1), tables[1], nn.Tanh())
    net = nn.Sequential(*head, Mean(2), nn.Linear(4, 2)).double()
    added = layer_contributions(net, smooth, "shift", half_width=0.2)
    assert max(added, key=lambda name: added[name][0]) == broken
    assert layer_contributions(net[:1], smooth, "amplitude") == {}  # features may scale or not


class Mean(nn.Module):
    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def forward(self, x):
        return x.mean(self.axis)


class Patches(nn.Module):
    """Tokens of patches behind one of a class, (N, 1 + 16, 6)."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(1, 6, 1)
        self.pool = nn.AvgPool2d(3)

    def forward(self, x):
        tokens = self.pool(self.embed(x)).flatten(2).mT
        return torch.cat((tokens[:, :1] * 0, tokens), 1)


@pytest.mark.parametrize("broken", ["1", "3"])
def test_tokens_of_patches_move_like_images(broken):
    """In a transformer without positions, the one layer that has them is named."""
    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attend = nn.Linear(6, 6)

        def forward(self, x):
            return x + (x @ x.mT).softmax(-1) @ self.attend(x)

    tables = [Ramp(17, 1) if name == broken else nn.Identity() for name in ("1", "3")]
    net = nn.Sequential(
        Patches(), tables[0], Block(), tables[1], nn.Tanh(), Mean(1), nn.Linear(6, 3)
    )
    x = torch.rand(6, 1, 12, 12, dtype=F64, generator=torch.Generator().manual_seed(0))
    added = {name: one[0] for name, one in layer_contributions(net.double(), x, "c4").items()}
    assert max(added, key=added.get) == broken
    assert all(value < 1e-9 for name, value in added.items() if name != broken)
    rows = {row.name: row for row in layer_equivariance(net, x, "c4")}
    assert (rows["2.attend"].law, rows["2.attend"].error is not None) == ("equivariance", True)


class Adding(nn.Module):
    """Two layers with a table of positions between them, which no layer of its own adds."""

    def __init__(self, side):
        super().__init__()
        self.first, self.last = Turned(1, 4), Turned(4, 4)
        self.table = nn.Parameter(torch.randn(1, 4, side, side))

    def forward(self, x, *, scale):
        return self.last(scale * self.first(x) + self.table)


class Around(nn.Module):
    def __init__(self, side):
        super().__init__()
        self.block, self.head = Adding(side), nn.Linear(4, 2)

    def forward(self, x):
        maps = torch.relu(self.block(x, scale=2.0))
        return self.head(maps.mean((2, 3))), maps.detach()


@pytest.mark.parametrize("group", ["c4", "rotation", "translation"])
def test_operations_between_layers_are_named(group):
    torch.manual_seed(0)
    net, x = Around(12).double(), torch.rand(4, 1, 12, 12, dtype=F64)
    found = layer_contributions(net, x, group, half_width=None if group == "c4" else 0.2)
    beyond = {name: a**2 - b**2 for name, (a, b) in found.items()}
    assert max(beyond, key=beyond.get) == "block"
    assert "" not in found  # it gives two things, of which one is not moved back
    if group == "c4":
        assert max(value for name, value in beyond.items() if name != "block") < 1e-9
    rows = audit_model(net, x, group, output="0:logits", steps=2, samples=2, progress=False).layers
    assert [(row.law, row.error) for row in rows if row.name == "block"] == [
        ("own operations", None)
    ]


def test_lists_of_boxes_have_no_ranking():
    """Their number may change, so that there is nothing to compare."""
    net = nn.Sequential(nn.Conv2d(1, 1, 3), nn.Flatten())
    net.forward = lambda x: [{"boxes": net[0](one[None])[0, 0, :1, :4]} for one in x]
    assert layer_contributions(net, torch.rand(3, 1, 8, 8), "c4") == {}


def test_what_has_no_known_law_is_not_ranked():
    """An action of one's own on cubes of numbers: its layers are left out, not called right."""

    class Roll(Action):
        group = Flip("x")

        def __call__(self, element, data):
            return torch.where((element % 2).bool().reshape(-1, 1, 1, 1), data.flip(2), data)

    net = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Flatten(), nn.Linear(60, 2))
    x = torch.rand(4, 3, 4, 5)
    assert set(layer_contributions(net, x, Roll())) == {"3"}


class Reader(nn.Module):
    """Reads items by an LSTM; everything else takes them one by one, or their mean."""

    def __init__(self, batch_first):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.read = nn.Linear(3, 4), nn.LSTM(4, 5, batch_first=batch_first)
        self.act, self.last = nn.Tanh(), nn.Linear(5, 2)
        self.batch_first = batch_first

    def forward(self, x):
        h = self.act(self.first(x))
        output, _ = self.read(h if self.batch_first else h.transpose(0, 1))
        return self.last((output if self.batch_first else output.transpose(0, 1)).mean(1))


@pytest.mark.parametrize("batch_first", [True, False])
def test_a_recurrent_layer_gives_a_tuple_and_is_named(batch_first):
    """Under reversal it alone breaks the symmetry, so it adds the whole error of the output."""
    model, x = Reader(batch_first).double(), torch.randn(6, 7, 3, dtype=F64)
    action = SequenceAction(Flip("x"))
    rows = {row.name: row for row in layer_equivariance(model, x, action)}
    with torch.no_grad():
        read = nn.LSTM.forward
        hidden = model.act(model.first(x))
        layer = nn.LSTM(4, 5, batch_first=True).double()
        layer.load_state_dict(model.read.state_dict())
        plain, turned = read(layer, hidden)[0], read(layer, hidden.flip(1))[0]
    expected = float((turned - plain.flip(1)).norm() / plain.norm())
    assert rows["read"].law == "equivariance"
    assert rows["read"].error == pytest.approx(expected, rel=1e-9)
    assert rows["act"].error < 1e-12
    if batch_first:
        added = layer_contributions(model, x, action)
        few = x[[0, 1, 3, 4]]
        whole = float(((model(few.flip(1)) - model(few)).norm() / model(few).norm()).detach())
        assert added["read"][0] == pytest.approx(whole, rel=1e-9)
        assert max(value for name, (value, _) in added.items() if name != "read") < 1e-12


def test_an_audit_has_the_lie_derivative_of_outputs_and_of_every_layer():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))
    x = torch.rand(5, 1, 8, 8)
    found = audit_model(net, x, "rotation", steps=2, samples=2, progress=False)
    assert [row.name for row in found.lie] == ["", "0", "1", "2", "3"]
    alone = {row.name: row for row in lie_derivative(net, x, "rotation", layers=["1"])}
    assert found.lie[2] == alone["1"]
    assert found.lie[0].error.mean == pytest.approx(found.lie[4].error.mean)
