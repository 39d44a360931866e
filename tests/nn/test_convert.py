"""Kept kernels, baking, export, conversion of a CNN, and the table of relaxations."""

import copy
import io
import warnings
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from symmetries.groups import Cyclic, Dihedral
from symmetries.nn.conversion import bake, export, export_onnx, relax_convolutions
from symmetries.nn.gconv import GroupConv2d, LiftingConv2d, RelaxedGroupConv2d
from symmetries.nn.gpool import FieldBatchNorm2d, GroupPool
from symmetries.nn.relaxation import (
    equivariance_errors,
    relaxation,
    relaxation_penalty,
)

KINDS = {
    "strict": {"mode": "strict"},
    "soft rotation": {"mode": "soft", "relax": {"rotation": 0.5}},
    "soft translation": {"mode": "soft", "relax": {"translation": 0.5}},
    "partial": {"mode": "partial"},
}


def layer(kind="soft rotation", group=None, seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    arguments = {"padding": 1, "group": group or Cyclic(4), "hidden": 8, **KINDS[kind], **options}
    return GroupConv2d(2, 3, 3, generator=generator, **arguments)


def network(kind="soft rotation"):
    group = Cyclic(4)
    lift = LiftingConv2d(1, 2, 3, padding=1, group=group)
    return nn.Sequential(lift, nn.ReLU(), layer(kind), nn.ReLU(), GroupPool(group, space=True))


def fields(size=7):
    return torch.randn(2, 8, size, size, generator=torch.Generator().manual_seed(1))


# Kept kernels


@pytest.mark.parametrize("kind", KINDS)
def test_kernel_is_made_once_in_evaluation(kind, monkeypatch):
    conv, x = layer(kind), fields()
    made = []
    generate = conv.generate
    monkeypatch.setattr(conv, "generate", lambda size: made.append(size) or generate(size))
    with torch.no_grad():
        expected = conv(x)
        conv(x)
        assert len(made) == 2  # training: every time
        conv.eval()
        for _ in range(3):
            assert torch.equal(conv(x), expected)
        assert len(made) == 3
        conv(fields(9))
        assert len(made) == 3 + (kind == "soft translation")  # its kernel belongs to a size


@pytest.mark.parametrize("kind", KINDS)
def test_kept_kernel_is_dropped_when_it_must_be(kind):
    conv, other, x = layer(kind).eval(), layer(kind, seed=3).eval(), fields()

    def fresh(module, x):
        return copy.deepcopy(module).train()(x)

    with torch.no_grad():
        before = conv(x)
        conv.load_state_dict(other.state_dict())
        assert torch.equal(conv(x), other(x))
        assert not torch.equal(conv(x), before)
        assert conv.double()(x.double()).dtype == torch.float64
        assert torch.equal(conv(x.double()), fresh(conv, x.double()))
        conv.float()
        conv.kernel.output.mul_(2)  # written in place
        assert torch.equal(conv(x), fresh(conv, x))
        conv.train()
        conv.kernel.output.data.mul_(2)
        conv.eval()
        assert torch.equal(conv(x), fresh(conv, x))
        if conv.relaxed:
            conv.relaxed_frequency.zero_()
            assert torch.equal(conv(x), fresh(conv, x))


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_of_other_tensors_are_not_used(kind):
    conv, x = layer(kind).eval(), fields()
    with torch.no_grad():
        before = conv(x)
        twice = {"kernel.output": 2 * conv.kernel.output, "bias": 2 * conv.bias}
        given = torch.func.functional_call(conv, twice, (x,))
        assert torch.allclose(given, 2 * before, atol=1e-5)
        assert torch.equal(conv(x), before)
        other = copy.deepcopy(conv)
        assert other._cache.get(other) is None
        other.kernel.output = nn.Parameter(2 * conv.kernel.output)
        other.bias = nn.Parameter(2 * conv.bias)
        assert torch.allclose(other(x), 2 * before, atol=1e-5)
        other.kernel = layer(kind, seed=3).kernel
        assert torch.equal(other(x), copy.deepcopy(other).train()(x))
        replica = conv._replicate_for_data_parallel()
        assert conv._cache.get(replica) is None


def test_kept_kernel_is_one_convolution_of_any_layout():
    conv, x = layer().eval(), fields()
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.overloadpacket)
            return func(*args, **(kwargs or {}))

    with torch.no_grad():
        expected = conv(x)
        with Watch():
            given = conv(x), conv(x.to(memory_format=torch.channels_last))
            turned = conv(x.mT.contiguous().mT)
    assert seen.count(torch.ops.aten.convolution) == 3
    for out in (expected, *given, turned):
        assert torch.allclose(out, expected, atol=1e-5)
        assert out.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (torch.zeros(2, 8, 7, 7, dtype=torch.float64), "features: expected"),
        (torch.zeros(2, 8, 7, 7, dtype=torch.int64), "features: expected"),
        (torch.zeros(2, 8, 7, 6), "square images"),
        (torch.zeros(2, 7, 7, 7), "8 channels"),
        (np.zeros((2, 8, 7, 7), dtype=np.float32), "features: expected"),
        ([1.0], "features: expected"),
        (None, "features: expected"),
    ],
)
def test_bad_input_is_named_with_a_kept_kernel_too(wrong, said):
    conv, x = layer().eval(), fields()
    for _ in range(2):
        with torch.no_grad():
            conv(x)
            with pytest.raises((TypeError, ValueError), match=said):
                conv(wrong)


def test_fixed_frequency_written_in_place_is_seen():
    conv, x = layer(learn=False).eval(), fields()
    with torch.no_grad():
        before = conv(x)
        conv.relaxed_frequency.fill_(3.0)
        assert not torch.equal(conv(x), before)


def test_evaluation_still_has_gradients():
    conv, x = layer().eval(), fields().requires_grad_()
    with torch.inference_mode():
        kept = conv(x)
    out = conv(x)
    out.square().sum().backward()
    assert torch.equal(out.detach(), kept)
    assert x.grad.abs().sum() > 0
    assert conv.relaxed_frequency.grad.abs().sum() > 0
    conv.requires_grad_(False)
    out = conv(x)  # from the kernel that inference mode kept
    out.sum().backward()
    assert torch.equal(out.detach(), kept)


@pytest.mark.parametrize("kind", KINDS)
def test_state_has_the_same_keys_in_training_and_evaluation(kind):
    conv = layer(kind)
    keys = list(conv.state_dict())
    conv.eval()
    with torch.no_grad():
        conv(fields())
    assert list(conv.state_dict()) == keys
    buffer = io.BytesIO()
    torch.save(conv.state_dict(), buffer)
    buffer.seek(0)
    again = layer(kind, seed=5)
    again.load_state_dict(torch.load(buffer, weights_only=True))
    assert torch.equal(again(fields()), conv(fields()))


def test_state_of_another_group_is_refused():
    for group in (Cyclic(8), Dihedral(4)):
        other = layer("strict", group=group)
        expected = "state_dict of 2: expected weights for 4 rotations without flips, got"
        model = network("strict")
        state = {**model.state_dict(), "2.signature": other.signature}
        with pytest.raises(ValueError, match=expected):
            model.load_state_dict(state)


# Baking and export


@pytest.mark.parametrize("kind", KINDS)
def test_baked_model_is_made_of_fixed_kernels(kind):
    model, x = network(kind).eval(), torch.rand(3, 1, 8, 8)
    baked = bake(model, x)
    with torch.no_grad():
        assert torch.allclose(baked(x), model(x), atol=1e-6)
    assert isinstance(baked[0], nn.Conv2d)
    assert isinstance(baked[2], nn.Conv2d) == (kind != "soft translation")
    assert not any(p.requires_grad for p in baked.parameters())
    assert isinstance(model[2], GroupConv2d)  # a copy


def test_export_has_the_kernels_baked_in():
    for kind in ("soft rotation", "soft translation"):
        model, x = network(kind).eval(), torch.rand(3, 1, 8, 8)
        program = export(model, x)
        operators = [str(node.target) for node in program.graph.nodes]
        assert "aten.relu.default" in operators
        assert not any(operator.startswith(("aten.cos", "aten.sin")) for operator in operators)
        more = torch.rand(5, 1, 8, 8)
        with torch.no_grad():
            assert torch.allclose(program.module()(more), model(more), atol=1e-6)


def test_onnx_runs_the_baked_kernels(tmp_path):
    import onnx
    import onnxruntime

    rotation, translation = {"rotation": 0.5}, {"translation": 0.5}
    options = {
        "group": Cyclic(4),
        "hidden": 4,
        "features": 4,
        "generator": torch.Generator().manual_seed(0),
    }
    model = nn.Sequential(
        LiftingConv2d(1, 2, 3, mode="soft", relax=rotation, **options),
        FieldBatchNorm2d(2, Cyclic(4)),
        nn.ReLU(),
        RelaxedGroupConv2d(2, 2, 3, relax=translation, **options),
        GroupPool(Cyclic(4), space=True),
    ).eval()
    path = export_onnx(model, torch.rand(3, 1, 8, 8), tmp_path / "model.onnx")
    assert not {node.op_type for node in onnx.load(path).graph.node} & {"Cos", "Sin"}
    images = torch.rand(5, 1, 8, 8)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(["outputs"], {"images": images.numpy()})
    with torch.no_grad():
        assert torch.allclose(torch.from_numpy(found), model(images), atol=1e-5)


def test_plain_export_works_in_evaluation_only():
    model, x = network(), torch.rand(2, 1, 8, 8)
    for strict in (False, True):
        with pytest.raises(Exception, match="eval mode"):
            torch.export.export(model, (x,), strict=strict)
    for helper in (bake, export):
        with pytest.raises(ValueError, match="eval mode"):
            helper(model, x)
    program = torch.export.export(model.eval(), (x,))
    with torch.no_grad():
        assert torch.allclose(program.module()(x), model(x), atol=1e-6)


def test_nothing_is_kept_of_calls_that_are_only_traced():
    conv, x = layer().eval(), fields()
    with torch.no_grad():
        expected = copy.deepcopy(conv)(x)
        with FakeTensorMode(allow_non_fake_inputs=True):
            assert conv(x).shape == expected.shape
        assert torch.equal(conv(x), expected)
        conv = copy.deepcopy(conv)
        with suppress(ValueError), warnings.catch_warnings():  # whether it works or not
            warnings.simplefilter("ignore")
            torch.jit.trace(conv, x, check_trace=False)
        assert torch.equal(conv(x), expected)
        assert torch.equal(torch.export.export(conv, (x,)).module()(x), expected)


# A user's CNN


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.norm(self.conv(x)))


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, padding="same"), Residual(16), nn.MaxPool2d(2), Residual(16),
        nn.Conv2d(16, 8, 1, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


@pytest.mark.parametrize("group", [Cyclic(1), Cyclic(4), Dihedral(4)])
@pytest.mark.parametrize("mode", ["strict", "soft", "partial"])
def test_a_cnn_is_converted(group, mode):
    x = torch.rand(2, 3, 10, 10)
    model = cnn()
    relaxed = relax_convolutions(model, group, mode=mode, hidden=8)
    relaxed(x).sum().backward()
    assert all(p.grad is not None for p in relaxed.parameters())
    assert relaxed(x).shape == (2, 5)
    assert not any(type(m) in (nn.Conv2d, nn.BatchNorm2d) for m in relaxed.modules())
    assert type(model[0]) is nn.Conv2d  # the user's model is left as it is
    rows = relaxation(relaxed)
    assert len({row["layer"] for row in rows}) == {"strict": 0, "soft": 4, "partial": 3}[mode]


def test_one_layer_is_converted():
    layer = relax_convolutions(nn.Conv2d(3, 8, 3), Cyclic(4))
    assert layer(torch.rand(1, 3, 6, 6)).shape == (1, 8, 4, 4)


@pytest.mark.parametrize(
    ("convolution", "what"),
    [
        (nn.Conv2d(4, 4, (3, 5)), "square kernel"),
        (nn.Conv2d(4, 4, 3, groups=2), "one group"),
        (nn.Conv2d(4, 4, 3, dilation=2), "dilation 1"),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), "zeros"),
        (nn.Conv2d(4, 6, 3), "multiples of 4"),
    ],
)
def test_what_cannot_be_converted_is_named(convolution, what):
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), convolution)
    with pytest.raises(ValueError, match=f"layer 2: expected .*{what}"):
        relax_convolutions(model, Cyclic(4))
    with pytest.raises(ValueError, match=r"nn\.Conv2d layers"):
        relax_convolutions(nn.ReLU(), Cyclic(4))


# The table


def test_relaxation_is_read_and_set():
    group = Cyclic(4)
    model = nn.Sequential(
        LiftingConv2d(1, 2, 3, group=group),
        RelaxedGroupConv2d(2, 2, 3, group=group, relax={"rotation": 0.5, "translation": -0.25}),
        GroupConv2d(2, 2, 3, group=group, mode="partial", learn=False),
    )
    rows = relaxation(model)
    assert [(r["layer"], r["coordinate"], r["value"], r["learned"]) for r in rows] == [
        ("1", "shift_x", 0.25, True),
        ("1", "shift_y", 0.25, True),
        ("1", "rotation", 0.5, True),
        ("2", "rotation", 1.0, False),
    ]
    assert relaxation_penalty(model).item() == pytest.approx(0.375)
    assert relaxation_penalty(nn.Linear(1, 1)).item() == 0


def test_measured_errors_stand_beside_the_relaxation():
    group = Dihedral(4)
    options = {"padding": 1, "group": group, "hidden": 8}
    model = nn.Sequential(
        LiftingConv2d(1, 2, 3, **options),
        RelaxedGroupConv2d(2, 2, 3, relax={"rotation": 0.5}, **options),
        RelaxedGroupConv2d(2, 2, 3, relax={"flip": 0.5}, **options),
        RelaxedGroupConv2d(2, 2, 3, relax={"shift_x": 0.5}, **options),
    )
    images = torch.rand(2, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    errors = equivariance_errors(model, images)
    assert all(error < 1e-5 for error in errors["0"].values())
    assert errors["1"]["rotation"] > 1e-2
    assert errors["1"]["shift_x"] < 1e-5
    assert errors["1"]["shift_y"] < 1e-5
    assert errors["2"]["flip"] > 1e-2
    assert errors["2"]["rotation"] < 1e-5
    assert errors["3"]["shift_x"] > 1e-2
    rows = relaxation(model, images)
    assert [row["error"] for row in rows] == [
        errors["1"]["rotation"], errors["2"]["flip"], errors["3"]["shift_x"]
    ]  # fmt: skip
    assert model.training
    plane = nn.Sequential(RelaxedGroupConv2d(1, 1, 3, group=Cyclic(1), relax={"shift_x": 0.5}))
    errors = equivariance_errors(plane, images)["0"]
    assert errors["shift_x"] > 1e-2
    assert errors["shift_y"] < 1e-5
    odd = nn.Sequential(RelaxedGroupConv2d(1, 1, 3, group=Cyclic(3)))
    assert equivariance_errors(odd, torch.rand(1, 3, 5, 5))["0"]["rotation"] is None


def test_training_under_the_compiler_is_no_export():
    model, x = network("soft rotation"), torch.rand(2, 1, 8, 8)
    compiled = torch.compile(model, backend="eager")
    assert torch.allclose(compiled(x), model(x), atol=1e-6)
    compiled(x).sum().backward()
    assert model[2].relaxed_frequency.grad is not None
