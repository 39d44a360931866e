"""The value around pictures."""

import warnings

import pytest
import torch

from symmetries.data import background


def framed(*values, side=8):
    """Noise in a frame of one value for each channel."""
    generator = torch.Generator().manual_seed(0)
    images = torch.tensor(values).view(1, -1, 1, 1).repeat(5, 1, side, side)
    images[..., 2:-2, 2:-2] = torch.rand(5, len(values), side - 4, side - 4, generator=generator)
    return images


@pytest.mark.parametrize("values", [(0.0,), (0.25,), (1.0,), (0.0,) * 3, (0.5,) * 3])
def test_a_grey_frame_is_found_without_a_warning(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert background(framed(*values)) == values[0]


@pytest.mark.parametrize("value", [0.9, 0.5, 0.12])
def test_a_noisy_background_is_its_middle(value):
    generator = torch.Generator().manual_seed(0)
    noisy = torch.full((40, 3, 16, 16), value) + 0.05 * torch.randn(
        40, 3, 16, 16, generator=generator
    )
    assert background(noisy) == pytest.approx(value, abs=0.01)
    noisy[::2, :, 0] = 1 - value + 0.3 * (value == 0.5)  # a second value in half of the top rows
    noisy[::2, :, -1] = noisy[::2, :, 0]
    assert background(noisy) == 0.0


def test_noise_has_no_background():
    noise = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert background(noise) == 0.0


def test_units_are_those_of_the_images():
    assert background(200 * framed(0.5) + torch.rand(5, 1, 8, 8), unit=200.0) > 100
    assert background(200 * framed(0.5) + 20 * torch.rand(5, 1, 8, 8)) == 0.0


def test_a_coloured_background_is_told():
    with pytest.warns(RuntimeWarning, match=r"has a colour \(0.25, 0.5, 0.75 in .* or give fill"):
        assert background(framed(0.25, 0.5, 0.75)) == 0.5
    with pytest.warns(RuntimeWarning, match=r"\(1, 1, 0 in the channels\)"):
        assert background(framed(1.0, 1.0, 0.0)) == pytest.approx(2 / 3)


def test_bytes_are_compared_as_numbers():
    white = (255 * framed(1.0)).byte()
    assert background(white) == 255.0
    noisy = white.clone()
    noisy[..., ::2, :] -= 4  # within 2 per cent of the range
    noisy[..., 1::4, :] -= 2
    assert background(noisy) == 251.0
    assert background(noisy, unit=1.0) == 0.0
    with pytest.warns(RuntimeWarning, match="has a colour"):
        assert background((100 * framed(0.0, 1.0, 2.0)).byte()) == 100.0


@pytest.mark.parametrize("shape", [(0, 1, 8, 8), (3, 0, 8, 8), (3, 1, 0, 8), (8, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_images_that_are_not_there_are_refused(shape, dtype):
    with pytest.raises(ValueError, match=r"^images: expected .+, got .+; \S"):
        background(torch.zeros(shape, dtype=dtype))
