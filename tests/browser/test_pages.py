"""Every report in a real browser: quiet, self-contained, moving, and readable at any width."""

import importlib.util
import sys
from pathlib import Path

import pytest


def helper(name):
    """A module beside this one; tests are no package."""
    key = f"symmetries_browser_{name}"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, Path(__file__).with_name(f"{name}.py"))
        sys.modules[key] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[key]


chromium, pages = helper("chromium"), helper("pages")
pytestmark = pytest.mark.browser  # `make tests` leaves these out, and says so, without Chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = chromium.find()
    if program is None:
        pytest.fail("no Chromium found: apt-get install chromium, or leave out -m browser")
    opened = chromium.Chromium(program, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(params=sorted(pages.PAGES))
def page(request, tmp_path):
    return pages.write(request.param, tmp_path)


def pixels(browser):
    """What the first canvas shows, as text."""
    return browser.run("document.querySelector('canvas').toDataURL()")


def test_it_loads_in_silence_and_asks_no_host(browser, page):
    browser.open(page)
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.run("document.querySelectorAll('canvas').length") >= 3


def test_the_slider_moves_the_picture(browser, page):
    browser.open(page)
    before, label = pixels(browser), browser.run("document.querySelector('output').textContent")
    browser.run("document.querySelector('input[type=range]').focus()")
    browser.press("ArrowRight", 39)
    assert pixels(browser) != before
    assert browser.run("document.querySelector('output').textContent") != label
    browser.press("ArrowLeft", 37)
    assert pixels(browser) == before
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_it_can_be_read_at_phone_and_desktop_width(browser, page, width, dark):
    browser.open(page, width, dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    shot = browser.screenshot()
    assert shot.shape[1] == width
    corner = shot[2, 2].mean()
    assert corner < 60 if dark else corner > 230
    drawn = (abs(shot.astype(int) - shot[2, 2]).max(2) > 40).mean()
    assert 0.01 < drawn < 0.6


@pytest.mark.parametrize("width", [390, 1200])
def test_a_relaxed_fit_fits_a_phone(browser, tmp_path, width):
    browser.open(pages.write("relaxed", tmp_path), width)
    assert (browser.complaints(), browser.requests()) == ([], [])
    cut = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
    assert browser.run(f"{cut}.length") == 0  # neither the table nor the filters
    find = "[...document.querySelectorAll('svg text')].filter(e => /^features/.test(e.textContent))"
    boxes = browser.run(f"{find}.map(e => e.getBoundingClientRect()).map(b => [b.top, b.bottom])")
    tops, bottoms = zip(*sorted(boxes), strict=True)
    assert len(boxes) == 3
    assert all(top >= bottom - 1 for top, bottom in zip(tops[1:], bottoms[:-1], strict=True))


def test_pictures_fade_where_they_are_unlikely(browser, tmp_path):
    browser.open(pages.write("discover", tmp_path))
    fade = "Number(document.querySelector('canvas').style.opacity)"
    middle = browser.run(fade)
    browser.run("document.querySelector('input[type=range]').focus()")
    browser.press("Home", 36)
    assert browser.run(fade) < middle < 1


def test_names_are_data(browser, tmp_path):
    browser.open(pages.write("discover", tmp_path))
    assert browser.run("document.title") == f"Symmetries of {pages.NASTY}"
    assert browser.run("document.scripts.length") == 1


def test_what_must_not_happen_is_noticed(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><title>bad</title><img src='http://localhost:9/x.png'>"
        "<script>console.error('broken'); undefinedFunction()</script>"
    )
    browser.open(bad)
    assert any("undefinedFunction" in text for text in browser.complaints())
    assert browser.requests() == ["http://localhost:9/x.png"]
