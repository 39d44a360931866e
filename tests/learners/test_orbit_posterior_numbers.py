"""Random numbers of the orbit posterior belong to pictures or places, and a step to one device."""

import pytest
import torch
from torch.func import functional_call

from symmetries._utils.per_example_random import ExampleGenerator
from symmetries.learners.orbit_posterior import OrbitPosterior
from symmetries.learners.orbit_posterior.numbers import DIGITS, RowNumbers, picture_numbers


def test_numbers_of_rows_are_uniform_normal_and_unrelated():
    numbers = RowNumbers(torch.arange(20_000))
    unit, normal = numbers.rand(20_000, 3), numbers.randn(20_000, 3)
    assert 0 <= float(unit.min()) < float(unit.max()) < 1
    even = (torch.arange(60_000) + 0.5) / 60_000
    for values in (unit, 0.5 * (1 + torch.erf(normal / 2**0.5))):
        gap = float((values.flatten().sort().values - even).abs().max())
        assert gap < 1.7 / 60_000**0.5  # Kolmogorov and Smirnov
    every = torch.cat((unit, normal, RowNumbers(torch.arange(20_000) + 1).rand(20_000, 3)), 1)
    related = torch.corrcoef(every.T) - torch.eye(9)
    assert float(related.abs().max()) < 4.5 / 20_000**0.5


@pytest.mark.parametrize("bits", [0, 2**DIGITS - 1])
def test_the_rarest_numbers_are_finite(monkeypatch, bits):
    numbers = RowNumbers(torch.arange(2))
    monkeypatch.setattr(numbers, "_bits", lambda shape: torch.full(shape, float(bits)))
    assert bool((numbers.rand(2, 3) < 1).all())
    assert 5 < float(numbers.randn(2, 3).abs().max()) < 6


def test_numbers_of_pictures_differ_by_seed_and_by_picture():
    x = torch.rand(2, 1, 8, 8)
    first, other = picture_numbers(0, x).rand(2, 4), picture_numbers(1, x).rand(2, 4)
    assert not torch.allclose(first, other)
    assert not torch.allclose(first[0], first[1])
    torch.testing.assert_close(picture_numbers(0, x.flip(0)).rand(2, 4), first.flip(0))


@pytest.mark.parametrize("group", ["rotation", "shift_x", "rotation,translation", "flip_x"])
def test_a_density_does_not_depend_on_the_batch(group):
    torch.manual_seed(0)
    model = OrbitPosterior(group, (1, 12, 12), "quick")
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    x = torch.rand(20, 1, 12, 12)
    every = model.densities(x)
    some = model.densities(x[[7, 3]])
    again = model.densities(torch.cat((torch.rand(600, 1, 12, 12), x[7:8])))
    for all_of, few, last in zip(every, some, again, strict=True):
        torch.testing.assert_close(few.mass, all_of.mass[[7, 3]], atol=5e-3, rtol=0)
        torch.testing.assert_close(last.mass[-1:], all_of.mass[7:8], atol=5e-3, rtol=0)
        assert not torch.allclose(all_of.mass[7], all_of.mass[3], atol=5e-3)


def test_new_versions_follow_from_their_place_in_the_batch():
    model = OrbitPosterior("rotation,translation", (1, 12, 12), "quick")
    x = torch.rand(5, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    every = model.augment(x, torch.Generator().manual_seed(3))
    few = model.augment(x[:3], torch.Generator().manual_seed(3))
    torch.testing.assert_close(few, every[:3])
    half = ExampleGenerator().manual_seed(3)
    half.rank, half.world = 1, 2  # the second of two processes
    whole = model.sample(x[:4], 1, torch.Generator().manual_seed(3))
    torch.testing.assert_close(model.sample(x[2:4], 1, half), whole[2:])
    copies = model.sample(x[:1], 2, torch.Generator().manual_seed(3))[0]
    assert not torch.allclose(copies[0], copies[1])
    assert not torch.allclose(every, model.augment(x, torch.Generator().manual_seed(4)))


@pytest.mark.parametrize(
    "group",
    [
        "rotation",
        "rotation,translation",
        "affine",
        "rotation,flip_x",
        "flip_x",
        "hue",
        "similarity",
    ],
)
def test_a_step_mixes_no_devices(group):
    """On torch's meta device whatever was made on the CPU is refused, as a GPU would refuse it."""
    colours = 3 if group == "hue" else 1
    model = OrbitPosterior(group, (colours, 12, 12), "quick")
    numbers = MetaNumbers()
    every = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    weights = {name: value.to("meta") for name, value in every.items()}
    x = torch.rand(8, colours, 12, 12, device="meta")
    u = model.chart.draw(numbers.rand(8, len(model.chart.coordinates)))
    loss = functional_call(
        Loss(model), {f"model.{k}": v for k, v in weights.items()}, (x, u, numbers)
    )
    assert loss.device.type == "meta"
    assert loss.dtype == torch.float32


class MetaNumbers:
    """Shapes of random numbers."""

    def rand(self, *shape):
        return torch.rand(shape, device="meta")

    def randn(self, *shape):
        return torch.randn(shape, device="meta")


class Loss(torch.nn.Module):
    """The loss of a step as a module, whose weights can be exchanged."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, u, numbers):
        network = self.model.fits[0].train()
        asked, *shown = self.model.view(x, u, numbers)
        return -network(asked, shown, numbers).mean()
