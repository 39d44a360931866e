"""The page: escaped, whole in one file, and carrying every kind of block."""

import re

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from symmetries.report.page import (
    Answer,
    Drawing,
    OrbitViewer,
    Page,
    Picture,
    Section,
    Strip,
    Table,
    render,
)

NASTY = '<script>alert("x")</script>&\'"'
PIXEL = "data:image/png;base64,AAAA"


def nasty_page():
    drawing = Drawing(Markup("<svg></svg>"), alt=NASTY, caption=NASTY)
    blocks = [
        Picture(PIXEL, alt=NASTY, caption=NASTY),
        drawing,
        Table([NASTY], [[NASTY]], caption=NASTY),
        Strip(NASTY, [(PIXEL, NASTY)]),
        OrbitViewer(NASTY, NASTY, PIXEL, [NASTY], [NASTY], 0, drawing, (0.1, 0.9), (8, 8)),
    ]
    return Page(
        NASTY, NASTY, [Answer(NASTY, NASTY)], [Section(NASTY, NASTY, blocks)], {NASTY: NASTY}, NASTY
    )


def test_every_text_is_escaped():
    html = render(nasty_page())
    assert "alert(&#34;x&#34;)" in html
    assert NASTY not in html
    assert html.count("<script>") == 1  # the page's own


def test_the_page_asks_no_host():
    html = render(nasty_page())
    sources = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert sources
    assert all(source.startswith("data:") for source in sources)
    assert "default-src 'none'" in html
    assert "@import" not in html
    assert not re.search(r"url\((?!data:)", html)


def test_every_block_is_drawn():
    html = render(nasty_page())
    for mark in ("<figure>", "<svg>", "<table>", 'class="strip"', 'class="orbit"'):
        assert mark in html


def test_a_page_without_answers_or_settings_has_no_empty_parts():
    html = render(Page("title", "lede"))
    assert "<dl" not in html
    assert "Settings" not in html


def test_a_block_of_the_wrong_type_is_an_error():
    with pytest.raises((UndefinedError, AttributeError)):
        render(Page("title", "lede", sections=[Section("s", blocks=["text"])]))
