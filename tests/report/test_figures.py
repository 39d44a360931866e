"""Figures: shapes, colours that follow the page, text that stays data."""

import io
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from symmetries.report import densities, figures


def small_curve(label="level"):
    return figures.curve(
        [0, 1, 2],
        [1, 0, 1],
        [0.5, 0, 0.5],
        [1.5, 0, 1.5],
        level=0.7,
        level_label=label,
        y_label="change",
        ticks=[(0, "a"), (1, "b"), (2, "c")],
    )


def test_an_svg_scales_and_takes_its_colours_from_the_page():
    with figures.style():
        svg = str(figures.to_svg(small_curve()))
    root = svg[: svg.index(">")]
    assert "viewBox" in root
    assert not re.search(r'\s(width|height)="', root)
    assert f"var(--accent, {figures.ACCENT})" in svg
    assert not re.search(r"(?<!, )" + figures.ACCENT, svg)
    ElementTree.fromstring(svg)


def test_text_in_an_svg_is_data():
    with figures.style():
        svg = str(figures.to_svg(small_curve("<b>$x$ & co")))
    assert "&lt;b&gt;$x$ &amp; co" in svg


def test_two_figures_on_a_page_share_no_id():
    ids = []
    for salt in ("one", "two"):
        with figures.style(salt):
            svg = figures.to_svg(small_curve())
        ids.append(set(re.findall(r'<clipPath id="([^"]+)"', svg)))
    assert ids[0]
    assert not ids[0] & ids[1]


def test_the_same_figure_gives_the_same_svg():
    drawn = []
    for _ in range(2):
        with figures.style("salt"):
            drawn.append(figures.to_svg(small_curve()))
    assert drawn[0] == drawn[1]


def test_the_curve_spans_the_width_it_says():
    axes = small_curve().axes[0]
    box = axes.get_position()
    assert (box.x0, box.x1) == pytest.approx(figures.SPAN)
    assert axes.get_xlim() == (0, 2)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_contact_sheet_holds_each_frame_in_its_place(channels):
    frames = np.arange(2 * 3 * 4 * 5 * channels, dtype=np.uint8).reshape(2, 3, 4, 5, channels)
    sheet = figures.contact_sheet(frames)
    tile = sheet[4:8, 10:15].reshape(4, 5, channels)
    np.testing.assert_array_equal(tile, frames[1, 2])
    decoded = np.asarray(Image.open(io.BytesIO(figures.encode_png(sheet))))
    np.testing.assert_array_equal(decoded, sheet)


def test_a_contact_sheet_of_two_channels_is_refused():
    with pytest.raises(ValueError, match="frames: expected 1 or 3 channels, got 2"):
        figures.contact_sheet(np.zeros((1, 1, 4, 4, 2), np.uint8))


@pytest.mark.filterwarnings("error")
def test_names_in_any_script_are_no_reason_to_warn():
    with figures.style():
        svg = figures.to_svg(
            densities.ridges([[1, 2], [2, 1]], ["名前", "ß"], ["1", "2"], ticks=[])
        )
    assert "名前" in svg
