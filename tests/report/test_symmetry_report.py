"""The page of ``symmetries discover``: warnings first, every verdict in words, nothing left out."""

import importlib.util
import sys
from pathlib import Path

import pytest

from symmetries.report import page_html, plot
from symmetries.report.words import ends_text, headline, interval_text, sentence, share_text
from symmetries.results import Histogram, SymmetryResult, Transformation


def pages():
    """The made-up results of the browser's tests."""
    key = "symmetries_browser_pages"
    if key not in sys.modules:
        path = Path(__file__).parents[1] / "browser" / "pages.py"
        spec = importlib.util.spec_from_file_location(key, path)
        sys.modules[key] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[key]


def part(verdict, name="rotation", unit="degrees", **more):
    given = {"name": name, "unit": unit, "width90": 64.0, "noise_floor": 3.0, "verdict": verdict}
    given |= {"interval": (60.0, 70.0), "share_told": 0.5}
    return Transformation(**{**given, "histogram": Histogram(edges=(), density=()), **more})


@pytest.fixture(scope="module")
def result():
    return pages().posed()


def test_warnings_come_before_the_answer(result):
    page = page_html(result)
    first, answer = page.index("Read this first"), page.index('class="lede"')
    assert first < page.index("The width is not certain") < answer
    assert "<script>alert" not in page
    without = result.model_copy(update={"warnings": ()})
    assert "Read this first" not in page_html(without)


def test_everything_that_was_found_is_on_the_page(result):
    page = page_html(result)
    for text in (
        "New versions",
        "The surest",
        "The least sure",
        "Class by class",
        "All pictures",
        "Does the method work on these data?",
        "2 of 3 planted widths were recovered.",
        "invisible",
        "cannot be told: either every pose occurs",
        "&lt; 1 %",
    ):
        assert text in page, text
    assert page.count("<canvas") == 9
    unchecked = result.model_copy(update={"check": None})
    assert "made without its self-test" in page_html(unchecked)


def test_a_result_from_a_file_has_all_but_pictures(result, tmp_path):
    read = SymmetryResult.load(result.save(tmp_path / "symmetries.json"))
    assert read == result
    page = page_html(read)
    assert "data:image/png" not in page
    for text in ("How far the pictures go", "Class by class", "All pictures", "The numbers"):
        assert text in page
    assert len(plot(read).axes) == 3
    assert read._repr_html_().startswith("<iframe")


def test_every_verdict_in_words():
    told = part("cannot be told", reason="give more pictures")
    assert sentence(told) == "cannot be told: give more pictures"
    assert sentence(part("cannot be told")) == "cannot be told"
    flips = [part(v, "flip_x", "elements") for v in ("absent", "partial", "full")]
    assert [sentence(one).startswith("mirrored") for one in flips] == [False, True, True]
    found = headline([part("partial"), part("cannot be told", "zoom", "factor")])
    assert found == "Rotated by about ±32°; cannot be told: zoom."
    wide = part("absent", noise_floor=150.0)
    assert sentence(wide) == "not rotated"  # noise is an orbit posterior's resolution, no doubt


def test_intervals_and_shares_in_words():
    assert interval_text(part("partial")) == "60° to 70°"
    assert interval_text(part("partial", interval=None)) == "-"
    assert ends_text((1.0, 2.0), "elements") == "1.0 to 2.0 elements"
    assert [share_text(part("partial", share_told=s)) for s in (0.5, 0.004, 0.0, None)] == [
        "50 %",
        "< 1 %",
        "0 %",
        "-",
    ]
