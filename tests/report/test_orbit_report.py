"""The report of orbits says what the numbers say."""

import numpy as np
import pytest

from symmetries.report.orbit_report import orbit_page, quantity, reach_text, spread
from symmetries.report.page import render
from symmetries.results import DataSummary, OrbitCurve, OrbitResult, RunInfo
from symmetries.results.pictures import OrbitPictures


def make_curve(name, unit, values, reach):
    flat = (0.1,) * len(values)
    return OrbitCurve(
        name=name,
        unit=unit,
        values=values,
        change=flat,
        change_low=flat,
        change_high=flat,
        reach=reach,
    )


@pytest.fixture
def result():
    return OrbitResult(
        group=("rotation", "scale_x"),
        data=DataSummary(name="<set>", count=1234, channels=1, height=6, width=8),
        neighbour_distance=0.25,
        transformations=(
            make_curve("rotation", "degrees", (-180.0, 0.0, 180.0), (-11.6, 12.4)),
            make_curve("scale_x", "factor", (0.5, 1.0, 2.0), None),
        ),
        run=RunInfo(
            command="symmetries orbit '<set>'",
            seed=0,
            device="cpu",
            time=1.5,
            created="now",
            versions={"torch": "2"},
        ),
    )


@pytest.fixture
def frames(result):
    return {curve.name: np.zeros((2, 3, 6, 8, 1), np.uint8) for curve in result.transformations}


def test_the_page_answers_first(result, frames):
    page = orbit_page(result.attach(OrbitPictures(["a", "b"], frames)))
    assert [(answer.name, answer.text) for answer in page.answers] == [
        ("rotation", "\N{MINUS SIGN}12° to +12°"),
        ("scale x", "anywhere in the range shown"),
    ]
    assert "1,234 images of 8 × 6 pixels" in page.lede


def test_the_page_has_a_viewer_for_each_transformation(result, frames):
    html = render(orbit_page(result.attach(OrbitPictures(["<a>", "b"], frames))))
    assert html.count('class="orbit"') == 2
    assert html.count("<canvas") == 4
    assert "example of &lt;a&gt;" in html
    assert "Orbits of &lt;set&gt;" in html
    assert "<set>" not in html


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (-0.04, "pixels", "0 px"),
        (-1.25, "pixels", "\N{MINUS SIGN}1.2 px"),
        (0.2, "degrees", "0°"),
        (90.0, "degrees", "+90°"),
        (0.5, "factor", "×0.50"),
        (2.0, "sigma", "+2 sigma"),
    ],
)
def test_quantities_read_as_people_write_them(value, unit, text):
    assert quantity(value, unit) == text


def test_reach_names_both_ends(result):
    assert reach_text(result.transformations[0]) == "\N{MINUS SIGN}12° to +12°"


def test_spread_keeps_both_ends():
    assert spread(41, 9) == [0, 5, 10, 15, 20, 25, 30, 35, 40]
    assert spread(3, 9) == [0, 1, 2]
