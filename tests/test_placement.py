"""Tensors that cannot be combined are refused by name, without a look at their values."""

import pytest
import torch
from torch import nn

from symmetries._validation.placement import call_model, check_broadcast, check_like, check_together
from symmetries.actions import ImageAction, SignalAction
from symmetries.auditing import integrated_gradients, logit_invariance
from symmetries.distributions.box import UniformBox
from symmetries.groups import SE2, Affine2, Cyclic, CyclicShift
from symmetries.nn.fourier import KernelFunction
from symmetries.nn.gconv import GroupConv2d, LiftingConv2d, RelaxedGroupConv2d
from symmetries.nn.gpool import FieldBatchNorm2d
from symmetries.nn.invariant_linear import InvariantLinear
from symmetries.nn.orbit_average import OrbitAverage
from symmetries.nn.tied import TiedConv2d, TiedLinear, pixel_permutations
from symmetries.nn.variational import VariationalLinear

EYE = torch.eye(3)[None]


def of_its_weights(layer, inputs, *more):
    """A layer, inputs that it takes, and what else its call needs."""
    return pytest.param(layer, inputs, more, id=type(layer).__name__)


LAYERS = [
    of_its_weights(LiftingConv2d(1, 2, 3, group=Cyclic(4)), torch.rand(2, 1, 5, 5)),
    of_its_weights(GroupConv2d(1, 2, 3, group=Cyclic(4)), torch.rand(2, 4, 5, 5)),
    of_its_weights(TiedConv2d(1, 2, 3, Cyclic(4)), torch.rand(2, 1, 5, 5)),
    of_its_weights(TiedLinear(pixel_permutations(Cyclic(4), (1, 4, 4)), 2), torch.rand(2, 16)),
    of_its_weights(VariationalLinear(4, 3), torch.rand(2, 4)),
    of_its_weights(InvariantLinear((1, 4, 4), 3), torch.rand(2, 1, 4, 4), EYE),
]


@pytest.mark.parametrize(("layer", "inputs", "more"), LAYERS)
def test_layers_name_what_has_another_dtype_or_device(layer, inputs, more):
    wrong = rf"(x|images|features): expected torch.float32 on cpu.*got {torch.float64}.*double"
    with pytest.raises(ValueError, match=wrong):
        layer(inputs.double(), *more)
    with pytest.raises(ValueError, match=r"got torch\.float32 on meta; move both to one device"):
        layer(inputs.to("meta"), *more)
    layer.double()(inputs.double(), *(part.double() for part in more))
    layer.float()


@pytest.mark.parametrize(("layer", "inputs", "more"), LAYERS)
def test_the_checks_leave_compiled_layers_whole(layer, inputs, more):
    layer.eval()
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    for a, b in zip(_parts(compiled(inputs, *more)), _parts(layer(inputs, *more)), strict=True):
        torch.testing.assert_close(a, b)


def _parts(found):
    return found if isinstance(found, tuple) else (found,)


def test_dtypes_may_differ_under_autocast():
    layer, x = LiftingConv2d(1, 2, 3, group=Cyclic(4)), torch.rand(2, 1, 5, 5)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x.bfloat16()).dtype == torch.bfloat16
    with pytest.raises(ValueError, match="bfloat16"):
        layer(x.bfloat16())


def test_checks_say_nothing_under_vmap():
    def both(x):
        check_together(x=x, y=torch.zeros(2))
        check_like(x, torch.zeros(2), "x")
        check_broadcast(x=x, y=torch.zeros(3, 1))
        return x

    assert torch.equal(torch.vmap(both)(torch.ones(4, 2)), torch.ones(4, 2))


def test_an_orbit_average_is_one_graph():
    box = UniformBox(Affine2("rotation"), 1.0)
    model = OrbitAverage(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), box, samples=2).eval()
    images, element = torch.rand(2, 1, 8, 8), Affine2("rotation").exp(torch.zeros(2, 1))
    compiled = torch.compile(model.average, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(images, element), model.average(images, element))
    with pytest.raises(ValueError, match=r"images: .*\(4, 1, 8, 9\).*mat1.*; check size") as raised:
        model.average(torch.rand(2, 1, 8, 9), element)
    assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("full"), KeyError("own"), ValueError("x: expected a, got b; do c")],
)
def test_what_says_nothing_about_the_inputs_passes(error):
    def model(x):
        raise error

    with pytest.raises(type(error)) as raised:
        call_model(model, torch.zeros(2))
    assert raised.value is error


def test_audits_say_what_a_model_cannot_take():
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    with pytest.raises(ValueError, match=r"x: .*\(4, 1, 5, 5\).*mat1 and mat2.*; check size"):
        logit_invariance(model, torch.rand(4, 1, 5, 5), Cyclic(4))
    with pytest.raises(ValueError, match=r"target: expected class numbers from 0 to 2, got 0 to 7"):
        integrated_gradients(model, torch.rand(2, 36), torch.tensor([0, 7]))
    with pytest.raises(ValueError, match=r"model: expected logits of shape \(N, K\)"):
        integrated_gradients(lambda x: x[:, None], torch.rand(2, 36), torch.tensor([0, 1]))


def test_group_elements_are_not_broadcast_by_accident():
    with pytest.raises(ValueError, match=r"x: expected the shape of angle \(2,\), got \(3,\)"):
        SE2().element(torch.zeros(2), torch.zeros(3), torch.zeros(2))
    with pytest.raises(ValueError, match="b: expected a shape that broadcasts with a"):
        CyclicShift("x", 3).product(torch.arange(3), torch.arange(2))
    network = KernelFunction(3, 1, (4, 2), variance=0.1)
    with pytest.raises(ValueError, match=r"absolute: expected a shape that broadcasts"):
        network.features(torch.rand(7, 3), torch.ones(3), torch.rand(5, 1), torch.ones(1))


def test_norms_of_fields_check_their_numbers():
    for wrong in ({"fields": -1}, {"eps": -1.0}, {"momentum": 2.0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}: expected"):
            FieldBatchNorm2d(**{"fields": 3, "group": Cyclic(4), **wrong})
    with pytest.raises(TypeError, match="group: expected"):
        FieldBatchNorm2d(3, None)


def test_an_empty_batch_passes():
    rotation = Affine2("rotation")
    act, element = ImageAction(rotation), rotation.exp(torch.ones(2, 1))
    none = torch.zeros(0, 1, 6, 6)
    assert act(element[0], none).shape == none.shape
    assert act.orbit(element, none).shape == (0, 2, 1, 6, 6)
    assert SignalAction()(torch.tensor([1.0, 0.0, 1.0, 0.0]), none[:, 0]).shape == (0, 6, 6)
    relaxed = RelaxedGroupConv2d(1, 2, 3, group=Cyclic(1), relax={"translation": 0.5})
    assert relaxed(none).shape == (0, 2, 4, 4)
    tied = TiedLinear(pixel_permutations(Cyclic(4), (1, 6, 6)), 2)
    assert tied(none).shape == (0, 2, 4)


def test_a_transformation_that_is_nan_gives_nan():
    layer, images = InvariantLinear((1, 4, 4), 3), torch.rand(2, 1, 4, 4)
    for side in ("inputs", "weights"):
        layer.side = side
        out = layer(images, torch.cat((EYE, torch.nan * EYE)))
        assert out[0].isfinite().all()
        assert out[1].isnan().all()
