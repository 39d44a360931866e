"""Group convolutions: the special cases to rounding, against slow and foreign oracles."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from symmetries.actions.images import ImageAction
from symmetries.groups import SE2, Cyclic, Dihedral
from symmetries.nn.gconv import GroupConv2d, LiftingConv2d, RelaxedGroupConv2d, turn_grid
from symmetries.nn.gconv_sampling import absolute_coordinates, relative_coordinates
from symmetries.nn.gpool import FieldBatchNorm2d, FieldNorm2d, GroupPool, act_on_fields
from symmetries.nn.position_conv import costs
from symmetries.testing import equivariance_error, invariance_error

GROUPS = [Cyclic(1), Cyclic(2), Cyclic(4), Cyclic(8), Dihedral(1), Dihedral(4), Dihedral(8)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pixel_elements(group):
    """The elements that map a square of pixels onto itself."""
    return [h for h in range(group.order) if 4 * (h % group.n) % group.n == 0]


def image_act(group):
    """The same elements acting on images without fields."""

    def act(element, images):
        copies = images.repeat_interleave(group.order, 1)
        return act_on_fields(group, element, copies)[:, :: group.order]

    return act


def field_act(group):
    return lambda element, x: act_on_fields(group, element, x)


def close(a, b, tolerance=1e-5):
    a, b = a.detach(), b.detach()
    return float((a - b).abs().max()) <= tolerance * max(1.0, float(b.abs().max()))


# How the group acts


def test_fields_and_images_turn_as_the_library_turns_pictures():
    group, x = Cyclic(4), torch.rand(2, 3, 6, 6, generator=seeded())
    quarter = torch.tensor(1)
    assert torch.equal(image_act(group)(quarter, x), ImageAction(group)(quarter, x))
    assert torch.equal(image_act(group)(quarter, x), x.rot90(1, (2, 3)))  # counter-clockwise


@pytest.mark.parametrize("group", [Cyclic(4), Dihedral(4)])
def test_action_on_fields_is_an_action(group):
    x = torch.rand(1, group.order, 5, 5, generator=seeded())
    for a, b in itertools.product(range(group.order), repeat=2):
        ab = group.compose(torch.tensor(a), torch.tensor(b))
        twice = act_on_fields(group, torch.tensor(a), act_on_fields(group, torch.tensor(b), x))
        assert torch.equal(act_on_fields(group, ab, x), twice)


def test_elements_between_the_pixels_are_refused():
    with pytest.raises(ValueError, match="quarter turns"):
        act_on_fields(Cyclic(8), torch.tensor(1), torch.rand(1, 8, 5, 5))


# Coordinates


def test_relative_coordinates_are_the_logarithm_of_se2():
    n, k = 8, 3
    group, se2 = Cyclic(n), SE2()
    angle = torch.arange(n) * (2 * torch.pi / n)
    coordinates = relative_coordinates(group, k)
    for i, j, row, column in itertools.product(range(n), range(n), range(k), range(k)):
        if (i - j) % n == n // 2:
            continue  # half a turn: a matrix does not know its sign
        v = se2.element(angle[j], torch.tensor(0.0), torch.tensor(0.0))
        u = se2.element(angle[i], torch.tensor(1.0 - column), torch.tensor(row - 1.0))
        expected = se2.log(se2.compose(se2.inverse(v), u)) / torch.tensor([1, 1, torch.pi])
        assert close(coordinates[i, j, row * k + column], expected)


def test_half_turns_have_one_sign():
    coordinates = relative_coordinates(Cyclic(6), 1)[:, :, 0, 2]
    halves = torch.stack([coordinates[(j + 3) % 6, j] for j in range(6)])
    assert torch.equal(halves, torch.full((6,), -1.0))


def test_absolute_coordinates_at_a_position():
    group, se2 = Cyclic(8), SE2()
    position = torch.tensor([[0.3, -0.7], [0.1, 0.2]])
    coordinates = absolute_coordinates(group, position)
    for j, p in itertools.product((0, 1, 2, 3, 5), range(2)):
        v = se2.element(torch.tensor(2 * torch.pi * j / 8), *position[p])
        expected = se2.log(v) / torch.tensor([1, 1, torch.pi])
        assert close(coordinates[j, p], expected)


# omega' = 0 is strictly equivariant


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("mode", ["strict", "soft"])
def test_layers_are_equivariant_without_relaxation(group, mode):
    names = ["translation"] + ["rotation"] * (group.n > 1) + ["flip"] * isinstance(group, Dihedral)
    relax = dict.fromkeys(names, 0.0) if mode == "soft" else None
    options = {"padding": "same", "group": group, "mode": mode, "relax": relax, "hidden": 16}
    lift = LiftingConv2d(2, 2, 5, generator=seeded(), **options).eval()
    conv = GroupConv2d(2, 1, 3, generator=seeded(1), **options).eval()
    images = torch.randn(2, 2, 7, 7, generator=seeded(2))
    fields = torch.randn(2, 2 * group.order, 7, 7, generator=seeded(3))
    for h in pixel_elements(group):
        element = torch.tensor(h)
        assert equivariance_error(lift, image_act(group), field_act(group), element, images) < 1e-5
        assert equivariance_error(conv, field_act(group), field_act(group), element, fields) < 1e-5


def test_translations_commute_inside_the_image():
    layer = RelaxedGroupConv2d(
        2, 3, 3, padding=1, group=Cyclic(4), relax={"translation": 0.0}, generator=seeded()
    )
    x = torch.zeros(1, 8, 12, 12)
    x[..., 4:8, 4:8] = torch.randn(1, 8, 4, 4, generator=seeded(1))

    def shift(steps, x):
        return x.roll(steps, (2, 3))

    assert equivariance_error(layer, shift, shift, (2, -1), x) < 1e-5
    with torch.no_grad():
        layer.relaxed_frequency.fill_(0.5)
    assert equivariance_error(layer, shift, shift, (2, -1), x) > 1e-2


@pytest.mark.parametrize("group", [Cyclic(4), Cyclic(8), Dihedral(4)])
def test_relaxed_rotation_breaks_equivariance(group):
    error = []
    fields = torch.randn(2, 2 * group.order, 9, 9, generator=seeded(3))
    for omega in (0.0, 0.1, 1.0):
        conv = RelaxedGroupConv2d(
            2, 2, 3, padding=1, group=group, relax={"rotation": omega}, generator=seeded(1)
        )
        quarter = torch.tensor(group.n // 4)
        act = field_act(group)
        error.append(equivariance_error(conv, act, act, quarter, fields))
    assert error[0] < 1e-5
    assert 1e-3 < error[1] < error[2]


@pytest.mark.parametrize("group", [Cyclic(4), Cyclic(8), Dihedral(4)])
def test_a_network_is_invariant(group):
    def network(mode):
        options = {"padding": "same", "group": group, "mode": mode}
        return nn.Sequential(
            LiftingConv2d(1, 4, 5, generator=seeded(), padding="same", group=group),
            FieldNorm2d(4, group),
            nn.ReLU(),
            nn.MaxPool2d(2),
            GroupConv2d(4, 4, 3, generator=seeded(1), **options),
            FieldBatchNorm2d(4, group),
            nn.ReLU(),
            GroupPool(group, space=True),
        ).eval()

    x = torch.randn(2, 1, 12, 12, generator=seeded(2))
    for h in pixel_elements(group):
        assert invariance_error(network("strict"), image_act(group), torch.tensor(h), x) < 1e-5
    quarter = torch.tensor(group.n // 4)
    assert invariance_error(network("soft"), image_act(group), quarter, x) > 1e-2


def test_turned_grid_is_as_equivariant_in_training():
    group = Cyclic(8)
    conv = GroupConv2d(2, 2, 3, padding=1, group=group, generator=seeded())
    x = torch.randn(1, 16, 7, 7, generator=seeded(1))
    straight = conv(x)
    turn_grid(conv, torch.tensor(0.3))
    assert equivariance_error(conv, field_act(group), field_act(group), torch.tensor(2), x) < 1e-5
    assert not close(conv(x), straight, 1e-2)
    assert torch.equal(conv.eval()(x), straight)  # fixed angles in evaluation
    # A turn by one step is the same grid, renumbered.
    turn_grid(conv.train(), torch.tensor(2 * torch.pi / 8))
    renumbered = conv(x.unflatten(1, (2, 8)).roll(-1, 2).flatten(1, 2))
    assert close(renumbered.unflatten(1, (2, 8)).roll(1, 2).flatten(1, 2), straight)


# omega = omega' = 0 is invariant pooling


@pytest.mark.parametrize("relax", [{"rotation": 0.0}, {"translation": 0.0}])
def test_no_frequency_at_all_sums_over_the_support(relax):
    group = Cyclic(4)
    conv = RelaxedGroupConv2d(
        2, 3, 3, group=group, relax=relax, frequency=0.0, bias=False, generator=seeded()
    )
    x = torch.randn(2, 8, 7, 7, generator=seeded(1))
    out = conv(x).unflatten(1, (3, 4))
    assert close(out, out[:, :, :1].expand_as(out))  # the same for every orientation
    pooled = 9 * nn.functional.avg_pool2d(x.unflatten(1, (2, 4)).sum(2), 3, 1)
    constant = conv.kernel.finish(
        conv.kernel.project_relative(torch.zeros(3), conv.frequency)
        + conv.kernel.project_absolute(torch.zeros(len(conv.relaxed)), conv.relaxed_frequency)
    )
    weight = conv.kernel.output @ constant
    assert close(out[:, :, 0], torch.einsum("oc,nchw->nohw", weight, pooled))


def test_pooling_is_global_where_the_kernel_covers_the_image():
    conv = GroupConv2d(2, 3, 7, group=Cyclic(4), frequency=0.0, generator=seeded())
    x = torch.randn(2, 8, 7, 7, generator=seeded(1))
    shuffled = x.flatten(2)[..., torch.randperm(49, generator=seeded(2))].view_as(x)
    out = conv(x)
    assert out.shape[2:] == (1, 1)
    assert close(conv(shuffled), out)
    assert close(conv(act_on_fields(Cyclic(4), torch.tensor(1), x)), out)


# An independent slow group convolution, and another library's


def slow_group_convolution(f, base, matrices, padding):
    """h(x, i) = sum over y, j of base[j^-1 i](M_j^-1 (x - y)) f(y, j), in plain loops.

    Args:
        f: (C, |H|, H, W).
        base: (O, C, |H|, k, k), the kernel at j = 0, indexed by tap of a cross-correlation.
        matrices: (|H|, 2, 2) whole numbers, x right and y up.
        padding: zeros on each side.
    """
    fields_out, _, order, k, _ = base.shape
    height, width = f.shape[2:]
    rows, columns = height + 2 * padding - k + 1, width + 2 * padding - k + 1
    out = np.zeros((fields_out, order, rows, columns))
    half = (k - 1) // 2
    for i, j in itertools.product(range(order), repeat=2):
        back = matrices[j].T  # the inverse of an orthogonal matrix
        relative = next(h for h in range(order) if (matrices[h] == back @ matrices[i]).all())
        for row, column, dr, dc in itertools.product(
            range(rows), range(columns), range(k), range(k)
        ):
            r, c = row + dr - padding, column + dc - padding
            if not (0 <= r < height and 0 <= c < width):
                continue
            x, y = back @ np.array([half - dc, dr - half])  # x - y of this tap, seen from j
            out[:, i, row, column] += base[:, :, relative, y + half, half - x] @ f[:, j, r, c]
    return out


@pytest.mark.parametrize("group", [Cyclic(4), Dihedral(4), Dihedral(2)])
def test_agrees_with_a_slow_group_convolution(group):
    conv = GroupConv2d(2, 3, 3, padding=1, group=group, bias=False, generator=seeded()).double()
    x = torch.randn(1, 2 * group.order, 4, 4, generator=seeded(1), dtype=torch.float64)
    bank = conv.generate((4, 4)).weight.view(3, group.order, 2, group.order, 3, 3)
    base = bank[:, :, :, 0].transpose(1, 2)  # (O, C, relative element, k, k)
    matrices = group.matrix(group.elements())[:, :2, :2].round().long().numpy()
    f = x[0].view(2, group.order, 4, 4).numpy()
    slow = slow_group_convolution(f, base.detach().numpy(), matrices, 1)
    fast = conv(x)[0].view(3, group.order, 4, 4).detach()
    assert close(fast, torch.from_numpy(slow), 1e-6)  # coordinates are float32 numbers


def test_agrees_with_stored_outputs_of_escnn():
    """R2Conv of escnn 1.0.11 with regular fields of C4, 3 x 3, padding 1, at random weights."""
    stored = {
        k: torch.from_numpy(v)
        for k, v in np.load(Path(__file__).parent / "data/escnn_c4.npz").items()
    }
    group = Cyclic(4)
    options = {"padding": 1, "bias": False, "group": group, "hidden": 128, "features": 64}
    lift = LiftingConv2d(2, 2, 3, generator=seeded(), **options).double()
    base = stored["lifting_filter"].view(2, 4, 2, 3, 3)[:, 0]  # orientation 0: (O, C, k, k)
    phi = lift.kernel.features(lift.relative[0, 0].double(), lift.frequency)
    _fit_output(lift, phi, base.flatten(2))
    assert close(lift(stored["image"].double()), stored["lifted"].double())

    conv = GroupConv2d(2, 2, 3, generator=seeded(), **options).double()
    base = stored["group_filter"].view(2, 4, 2, 4, 3, 3)[:, :, :, 0].transpose(1, 2)
    phi = conv.kernel.features(conv.relative[:, 0].double().flatten(0, 1), conv.frequency)
    _fit_output(conv, phi, base.flatten(2))
    assert close(conv(stored["fields"].double()), stored["convolved"].double())


def _fit_output(layer, phi, values):
    """Set the last layer so that the kernel takes given values (O, C, points) at its samples."""
    solution = torch.linalg.lstsq(phi, values.double().flatten(0, 1).T, driver="gelsd").solution
    with torch.no_grad():
        layer.kernel.output.copy_(solution.T.view_as(layer.kernel.output))


# A large omega' can be any linear layer


def test_a_linear_layer_is_fitted_with_a_large_frequency_only():
    """A kernel of one pixel, summed over the image, is a linear layer if the kernel is free."""
    size, target = 6, torch.randn(3, 2, 36, generator=seeded(9), dtype=torch.float64)
    images = torch.randn(20, 2, size, size, generator=seeded(8), dtype=torch.float64)
    wanted = torch.einsum("ocp,ncp->no", target, images.flatten(2))
    errors = []
    for omega in (0.0, 5.0):
        layer = RelaxedGroupConv2d(
            2,
            3,
            1,
            group=Cyclic(1),
            relax={"translation": omega},
            bias=False,
            features=64,
            hidden=128,
            generator=seeded(),
        ).double()
        phi = layer.generate((size, size)).weight[:, 0, 0]
        _fit_output(layer, phi, target)
        out = layer(images).sum((2, 3))
        errors.append(float((out - wanted).detach().norm() / wanted.norm()))
    assert errors[0] > 0.5
    assert errors[1] < 1e-6


# Relaxed translation: both orders, all shapes


@pytest.mark.parametrize("group", [Cyclic(1), Cyclic(4), Dihedral(2)])
@pytest.mark.parametrize("lifting", [True, False])
@pytest.mark.parametrize("k", [1, 3])
def test_orders_agree_with_each_kernel_applied_apart(group, lifting, k):
    kind = LiftingConv2d if lifting else RelaxedGroupConv2d
    relax = {"translation": 0.7} | ({"rotation": 0.4} if group.n > 1 else {})
    padding = (k - 1) // 2
    options = {"stride": 2, "padding": padding, "group": group, "mode": "soft", "relax": relax}
    size, fields_in, elements = 6, 3, 1 if lifting else group.order
    x = torch.randn(2, fields_in * elements, size, size, generator=seeded(1))
    outs = []
    for order in ("factored", "table"):
        layer = kind(fields_in, 2, k, order=order, generator=seeded(), **options)
        nn.init.normal_(layer.bias, generator=seeded(4))
        outs.append(layer(x))
    assert close(*outs)
    # Tap by tap: the kernel depends on the position of the pixel that is read.
    phi = layer.generate((size, size)).weight.view(3, 3, elements, k * k, group.order, -1)
    padded = nn.functional.pad(x, [padding] * 4).unflatten(1, (fields_in, elements))
    for row, column in itertools.product(range(3), repeat=2):
        kernel = torch.einsum("jkim,ocm->oicjk", phi[row, column], layer.kernel.output)
        seen = padded[..., 2 * row : 2 * row + k, 2 * column : 2 * column + k].flatten(3)
        expected = torch.einsum("oicjk,ncjk->noi", kernel, seen) + layer.bias[:, None]
        assert close(outs[0][:, :, row, column], expected.flatten(1))


@pytest.mark.parametrize("order", ["factored", "table"])
def test_gradients_of_position_dependent_convolutions(order):
    layer = RelaxedGroupConv2d(
        2, 1, 3, stride=2, padding=1, group=Cyclic(2), relax={"translation": 0.5}, order=order,
        hidden=4, features=4, generator=seeded(),
    ).double()  # fmt: skip
    x = torch.randn(1, 4, 4, 5, generator=seeded(1), dtype=torch.float64, requires_grad=True)
    frequency = layer.relaxed_frequency.detach().clone().requires_grad_()

    def convolve(x, frequency):
        return torch.func.functional_call(layer, {"relaxed_frequency": frequency}, (x,))

    assert torch.autograd.gradcheck(convolve, (x, frequency), eps=1e-6, atol=1e-5)


def test_kernel_depends_on_the_pixel_that_is_read():
    """Equation 2: two output positions weigh one input pixel by the same domain features."""
    layer = RelaxedGroupConv2d(
        1,
        1,
        3,
        padding=1,
        group=Cyclic(1),
        relax={"translation": 1.0},
        frequency=0.0,
        bias=False,
        generator=seeded(),
    )
    x = torch.zeros(1, 1, 7, 7)
    x[0, 0, 2, 4] = 1  # with omega = 0 the nine outputs around it see one number
    out = layer(x)[0, 0, 1:4, 3:6]
    assert close(out, out[:1, :1].expand_as(out))


def test_factored_order_is_chosen_where_it_is_cheaper():
    layer = RelaxedGroupConv2d(64, 64, 5, padding=2, group=Cyclic(1), generator=seeded())
    cost = costs(layer.geometry, 4, 32)
    assert cost["factored"] < cost["table"]
    x = torch.randn(4, 64, 9, 9)
    table = 4 * 64 * 64 * 25 * 81  # bytes
    largest = 0

    class Largest(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                largest = max(largest, out.untyped_storage().nbytes())
            return out

    with Largest(), torch.no_grad():
        layer(x)
    assert 0 < largest < table / 4


# Strict, soft and partial through one layer


def test_modes_share_the_layer():
    group, x = Cyclic(4), torch.randn(2, 8, 7, 7, generator=seeded())
    for mode in ("strict", "soft", "partial"):
        out = GroupConv2d(2, 3, 3, padding=1, group=group, mode=mode)(x)
        assert out.shape == (2, 12, 7, 7)


def test_partial_keeps_a_fraction_of_the_rotations():
    group = Cyclic(8)
    conv = GroupConv2d(2, 3, 3, padding=1, group=group, mode="partial", generator=seeded())
    nn.init.normal_(conv.bias)
    strict = GroupConv2d(2, 3, 3, padding=1, group=group, generator=seeded())
    strict.load_state_dict(conv.state_dict(), strict=False)
    x = torch.randn(2, 16, 7, 7, generator=seeded(1))
    assert close(conv(x), strict(x))  # the whole group at the start
    for fraction, kept in ((0.0, {0}), (0.5, {0, 1, 2, 6, 7}), (0.25, {0, 1, 7})):
        with torch.no_grad():
            conv.fraction.fill_(fraction)
        out = conv(x).unflatten(1, (3, 8))
        alive = {h for h in range(8) if out[:, :, h].abs().max() > 0}
        assert alive == kept
        assert close(out[:, :, 0], strict(x).unflatten(1, (3, 8))[:, :, 0])
    with torch.no_grad():
        conv.fraction.fill_(0.4)
    conv(x).square().sum().backward()
    assert conv.fraction.grad.abs() > 0


def test_output_variance_at_the_start():
    """Inputs of mean square 1 give outputs of mean square gain^2, for every kind of layer."""
    for group, mode, relax in (
        (Cyclic(1), "strict", None),
        (Cyclic(8), "strict", None),
        (Cyclic(4), "soft", {"rotation": 1.0}),
        (Cyclic(1), "soft", {"translation": 1.0}),
    ):
        squares = []
        for seed in range(8):
            conv = GroupConv2d(
                8, 8, 5, group=group, mode=mode, relax=relax, gain=1.5, generator=seeded(seed)
            )
            x = torch.randn(1, 8 * group.order, 12, 12, generator=seeded(seed + 50))
            squares.append(conv(x).square().mean().item())
        assert sum(squares) / 8 == pytest.approx(2.25, rel=0.3)


def test_a_deep_strict_stack_keeps_the_size_of_its_activations():
    """Relu outputs have a mean, which kernels with a constant part would add up at every layer."""
    ratios = []
    for seed in range(4):
        x = first = torch.randn(1, 32, 11, 11, generator=seeded(seed)).relu()
        for layer in range(6):
            conv = GroupConv2d(
                8, 8, 3, padding=1, group=Cyclic(4), gain=2**0.5,
                generator=seeded(100 * seed + layer),
            )  # fmt: skip
            x = conv(x).relu()
        ratios.append(float(x.square().mean().detach() / first.square().mean()))
    typical = float(np.exp(np.mean(np.log(ratios))))
    assert 1 / 3 < typical < 3


@pytest.mark.parametrize("hidden", [32, 33])
@pytest.mark.parametrize("omega", [0.0, 0.1, 1.0])
def test_a_soft_kernel_starts_without_a_blur(omega, hidden):
    """What depends on the absolute element alone would be common to all taps, and add up."""
    shares, sizes = [], []
    for seed in range(8):
        conv = RelaxedGroupConv2d(
            8, 8, 5, group=Cyclic(4), relax={"rotation": omega}, hidden=hidden,
            generator=seeded(seed),
        )  # fmt: skip
        weight = conv.sampled((9, 9)).weight.detach()
        shares.append(float(weight.mean((2, 3)).square().mean() / weight.square().mean()))
        x = torch.randn(1, 32, 9, 9, generator=seeded(seed + 50)).relu()
        sizes.append(float(conv(x).detach().square().mean() / x.square().mean()))
    assert sum(shares) / 8 < 2 / 25  # 1 / 25 if taps were independent
    assert 0.6 < sum(sizes) / 8 < 1.7  # also of inputs with a mean


def test_relaxed_frequency_has_a_gradient_at_zero():
    for relax in ({"rotation": 0.0}, {"translation": 0.0}):
        conv = RelaxedGroupConv2d(2, 2, 3, group=Cyclic(4), relax=relax, generator=seeded())
        conv(torch.randn(1, 8, 6, 6, generator=seeded(1))).square().sum().backward()
        assert conv.relaxed_frequency.grad.abs().min() > 0
    fixed = RelaxedGroupConv2d(2, 2, 3, group=Cyclic(4), learn=False)
    assert "relaxed_frequency" in dict(fixed.named_buffers())


# Bad input


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="n: expected a whole number of at least 1"):
        GroupConv2d(1, 1, 3, group=Cyclic(0))
    for name in ("in_channels", "out_channels", "kernel_size", "stride"):
        sizes = {"in_channels": 1, "out_channels": 1, "kernel_size": 3, "stride": 1, name: 0}
        with pytest.raises(ValueError, match=name):
            GroupConv2d(**sizes, group=Cyclic(2))
    with pytest.raises(ValueError, match="padding"):
        GroupConv2d(1, 1, 4, padding="same", group=Cyclic(2))
    with pytest.raises(ValueError, match="mode"):
        GroupConv2d(1, 1, 3, group=Cyclic(2), mode="softer")
    with pytest.raises(ValueError, match="relax: expected one of"):
        RelaxedGroupConv2d(1, 1, 3, group=Cyclic(1), relax={"rotation": 1.0})
    with pytest.raises(ValueError, match="use mode='soft'"):
        GroupConv2d(1, 1, 3, group=Cyclic(4), relax={"rotation": 1.0})
    with pytest.raises(ValueError, match="use mode='strict'"):
        RelaxedGroupConv2d(1, 1, 3, group=Cyclic(4), relax={})


def test_arguments_are_those_of_conv2d_where_they_mean_something():
    settings = (4, 4, (3, 3), (2, 2), (1, 1), (1, 1), 1, False, "zeros", "cpu", torch.float64)
    plain, conv = nn.Conv2d(*settings), GroupConv2d(*settings, group=Cyclic(1))
    assert conv.bias is None
    x = torch.rand(2, 4, 9, 9, dtype=torch.float64)
    assert conv(x).shape == plain(x).shape
    assert conv(x).dtype == torch.float64
    for name, value in (("dilation", 2), ("groups", 2), ("padding_mode", "reflect")):
        with pytest.raises(ValueError, match=f"{name}: expected"):
            GroupConv2d(2, 2, 3, group=Cyclic(4), **{name: value})
    for name in ("kernel_size", "stride", "padding"):
        with pytest.raises(ValueError, match=f"{name}: expected"):
            GroupConv2d(2, 2, **{"kernel_size": 3, name: (3, 1)}, group=Cyclic(4))


def test_bad_input_is_named():
    conv = GroupConv2d(2, 1, 5, group=Cyclic(4))
    with pytest.raises(ValueError, match=r"8 channels \(2 fields of 4 elements\)"):
        conv(torch.rand(1, 2, 8, 8))
    with pytest.raises(ValueError, match="square images"):
        conv(torch.rand(1, 8, 8, 9))
    with pytest.raises(ValueError, match="kernel_size: expected at most the image, 4"):
        conv(torch.rand(1, 8, 4, 4))
    assert conv(torch.rand(1, 8, 8, 8)).numel()  # what it took once is not looked at again
    with pytest.raises(ValueError, match="square images"):
        conv(torch.rand(1, 8, 8, 9))
    with pytest.raises(ValueError, match=r"features: expected torch\.float32"):
        conv(torch.rand(1, 8, 8, 8).double())
    with pytest.raises(TypeError, match=r"features: expected a torch\.Tensor"):
        conv(np.zeros((1, 8, 8, 8), np.float32))
    with pytest.raises(ValueError, match=r"features: expected torch\.float64"):
        conv.double()(torch.rand(1, 8, 8, 8))
    for group in (Cyclic(1), Cyclic(2), Dihedral(1)):  # these take any size
        assert GroupConv2d(2, 1, 5, group=group)(torch.rand(1, 2 * group.order, 8, 9)).numel()
    with pytest.raises(ValueError, match="fields of 4"):
        GroupPool(Cyclic(4))(torch.rand(1, 6, 5, 5))
