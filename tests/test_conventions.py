"""The conventions page is true: the arrow's tip is where its table says."""

import importlib.util
from pathlib import Path

import pytest
import torch

DOCS = Path(__file__).parents[1] / "docs"
spec = importlib.util.spec_from_file_location("arrow", DOCS / "arrow.py")
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)


def test_the_page_names_every_parameter_of_the_affine_group():
    names = [name for name, _, _ in page.page_rows()]
    assert names == ["shift_x", "shift_y", "rotation", "scale_x", "scale_y", "zoom", "shear"]


def test_the_arrow_starts_where_the_page_says():
    assert page.tip(page.arrow()) == pytest.approx((0.5, 0.2), abs=5e-3)


@pytest.mark.parametrize(("name", "value", "tip"), page.page_rows())
def test_the_tip_is_where_the_page_says(name, value, tip):
    assert page.tip(page.moved(name, value)) == pytest.approx(tip, abs=5e-3)


def test_the_wrong_sign_would_be_noticed():
    for name, value, tip in page.page_rows():
        assert page.tip(page.moved(name, -value)) != pytest.approx(tip, abs=5e-2)


def test_red_turned_by_a_third_is_green():
    hue = page.Colour("hue")
    red = torch.zeros(1, 3, 1, 1)
    red[:, 0] = 1
    green = page.ImageAction(hue)(hue.exp(torch.tensor([2 * torch.pi / 3])), red)
    torch.testing.assert_close(green.flatten(), torch.tensor([0.0, 1.0, 0.0]), rtol=0, atol=1e-5)
