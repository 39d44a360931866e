import captum.attr
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from symmetries.auditing import (
    integrated_gradients,
    map_similarity,
    saliency_map,
    saliency_similarity,
)
from symmetries.auditing.first_layer import first_layer
from symmetries.auditing.saliency import smooth
from symmetries.groups import Cyclic


class Plain(nn.Module):
    """Reshapes by itself, as people write it."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(36, 12), nn.Linear(12, 3)

    def forward(self, x):
        return self.fc2(F.softplus(self.fc1(x.view(x.size(0), -1))))


class Skip(Plain):
    """The input reaches the output around the first layer too."""

    def forward(self, x):
        return super().forward(x) + x.flatten(1)[:, :3].square()


class Twice(Plain):
    """The first layer is used two times."""

    def forward(self, x):
        flat = x.flatten(1)
        return self.fc2(torch.tanh(self.fc1(flat)) * self.fc1(flat))


class Masked(Plain):
    """A mask, through which no gradient flows, is made of the input."""

    def forward(self, x):
        return super().forward(x) * (x.flatten(1)[:, :3] > 0)


class Scaled(Plain):
    """Something that is not linear comes before the first layer."""

    def forward(self, x):
        return super().forward(x.tanh())


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(36, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3)
    )


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4, 3),
    )


MODELS = {"mlp": mlp, "cnn": cnn, "plain": Plain, "skip": Skip, "twice": Twice, "scaled": Scaled}
EVERY = {**MODELS, "masked": Masked}


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(0)
    return MODELS[request.param]().eval()


@pytest.fixture
def x():
    return torch.randn(70, 1, 6, 6, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def y():
    return torch.randint(3, (70,), generator=torch.Generator().manual_seed(2))


def test_integrated_gradients_are_captum_s(model, x, y):
    oracle = captum.attr.IntegratedGradients(model).attribute(x, 0.0, y, n_steps=50)
    found = integrated_gradients(model, x, y)
    torch.testing.assert_close(found, oracle, rtol=1e-4, atol=1e-6)
    assert all(p.grad is None for p in model.parameters())


def test_a_mask_made_of_the_input_is_respected(x, y):
    model = Masked().eval()
    oracle = captum.attr.IntegratedGradients(model).attribute(x, -1.0, y)
    found = integrated_gradients(model, x, y, baseline=-1.0)
    torch.testing.assert_close(found, oracle, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("steps", [1, 7])
def test_baselines_and_steps_as_captum(model, x, y, steps):
    baseline = torch.linspace(-1, 1, 36).reshape(1, 6, 6)
    per_example = baseline + torch.arange(70.0).reshape(70, 1, 1, 1) / 70
    for b in (0.5, baseline, per_example):
        as_tensor = torch.as_tensor(b).expand_as(x) if isinstance(b, torch.Tensor) else b
        oracle = captum.attr.IntegratedGradients(model).attribute(x, as_tensor, y, n_steps=steps)
        found = integrated_gradients(model, x, y, steps=steps, baseline=b)
        torch.testing.assert_close(found, oracle, rtol=1e-4, atol=1e-6)


def test_attributions_add_up(model, x, y):
    found = integrated_gradients(model, x, y, steps=200).sum((1, 2, 3))
    with torch.no_grad():
        difference = (model(x) - model(torch.zeros_like(x))).gather(1, y[:, None])[:, 0]
    torch.testing.assert_close(found, difference, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        *[(name, True) for name in ("mlp", "cnn", "plain")],
        *[(name, False) for name in ("skip", "twice", "scaled", "masked")],
    ],
)
def test_where_the_first_layer_is_taken_out(name, found, x):
    model = EVERY[name]().eval()
    split = first_layer(model, x)
    assert (split is not None) == found
    if split is not None:
        torch.testing.assert_close(split.rest(split.linear(x), x), model(x))
        assert all("forward" not in module.__dict__ for module in model.modules())


def test_a_function_and_an_odd_module_have_no_first_layer(x):
    assert first_layer(lambda x: x.flatten(1), x) is None
    assert first_layer(nn.Flatten(), x) is None


def test_the_first_layer_is_restored_after_an_error(x):
    class Fails(Plain):
        def forward(self, x):
            hidden = self.fc1(x.flatten(1))
            if len(x) > 2:
                raise RuntimeError("no")
            return self.fc2(hidden)

    model = Fails()
    with pytest.raises(RuntimeError, match="no"):
        integrated_gradients(model, x, torch.zeros(70).long())
    assert "forward" not in model.fc1.__dict__


def test_saliency_map_keeps_the_top_and_smooths_it(x, y):
    model = mlp().eval()
    raw = integrated_gradients(model, x, y).abs()
    sharp = saliency_map(model, x, y, sigma=0)
    largest = raw.amax((1, 2, 3), keepdim=True)
    assert torch.equal(sharp, raw * (raw >= 0.9 * largest))
    found = saliency_map(model, x, y)
    taps = torch.tensor([[-1, 0, 1.0]]).square().mul(-0.5).exp()
    kernel = taps.T @ taps
    wrapped = F.pad(sharp, (1, 1, 1, 1), mode="circular")
    oracle = F.conv2d(wrapped, (kernel / kernel.sum())[None, None])
    torch.testing.assert_close(found, oracle)


def test_smooth_commutes_with_quarter_turns_and_cyclic_shifts():
    maps = torch.rand(3, 2, 5, 5)
    turned = torch.rot90(smooth(maps, 1.0), 1, (2, 3))
    torch.testing.assert_close(smooth(torch.rot90(maps, 1, (2, 3)), 1.0), turned)
    torch.testing.assert_close(smooth(maps.roll(2, 3), 1.0), smooth(maps, 1.0).roll(2, 3))


def test_map_similarity():
    a = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    b = torch.tensor([[0.0, 2.0], [3.0, 3.0], [0.0, 0.0], [1.0, 0.0]])
    torch.testing.assert_close(map_similarity(a, b), torch.tensor([0.0, 1.0, 1.0, 0.0]))


def test_similarity_by_hand_and_with_another_saliency(x, y):
    model = mlp().eval()

    def gradient(model, x, y):
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(model(leaf).gather(1, y[:, None]).sum(), leaf)[0].abs()

    values = []
    for k in (1, 2, 3):
        moved = gradient(model, torch.rot90(x, k, (2, 3)), y)
        back = torch.rot90(moved, -k, (2, 3)).flatten(1)
        values.append(F.cosine_similarity(gradient(model, x, y).flatten(1), back))
    found = saliency_similarity(model, x, Cyclic(4), y, saliency=gradient, batch_size=32)
    assert found.mean == pytest.approx(float(torch.stack(values).mean()), rel=1e-5)


def test_bad_options(x, y):
    model = mlp()
    with pytest.raises(ValueError, match="target: expected 70 class numbers"):
        integrated_gradients(model, x, y[:3])
    with pytest.raises(ValueError, match="steps"):
        integrated_gradients(model, x, y, steps=0)
    with pytest.raises(ValueError, match="threshold"):
        saliency_map(model, x, y, threshold=90)
