"""Results show themselves: the page of the command, a figure, and a frame in a notebook."""

import html

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import symmetries
from symmetries.results import AuditResult, OrbitResult

NET = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
DATA = torch.rand(9, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 3


@pytest.fixture(scope="module")
def results():
    return {
        "orbit": symmetries.orbit(DATA, "rotation", progress=False),
        "audit": symmetries.audit(NET, DATA, "c4", progress=False),
    }


@pytest.mark.parametrize("kind", ["orbit", "audit"])
def test_a_result_has_a_page_a_figure_and_a_frame(results, kind, tmp_path):
    result = results[kind]
    page = result.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    assert "data:image/png" in page
    assert isinstance(result.plot(), Figure)
    frame = result._repr_html_()
    assert frame.startswith("<iframe")
    assert html.escape(page) in frame


@pytest.mark.parametrize("kind", ["orbit", "audit"])
def test_a_result_from_a_file_has_a_page_without_pictures(results, kind, tmp_path):
    result = results[kind]
    loaded = type(result).load(result.save(tmp_path / "result.json"))
    assert loaded == result
    assert (loaded.pictures, loaded.fitted) == (None, None)
    page = loaded.to_html()
    assert "data:image/png" not in page
    assert "<svg" in page or "<table" in page
    assert isinstance(loaded.plot(), Figure)


def test_pictures_are_neither_saved_nor_compared(results, tmp_path):
    plain = OrbitResult.load(results["orbit"].save(tmp_path / "orbit.json"))
    attached = plain.attach({"any": "pictures"}, "a model")
    assert attached == plain
    assert (attached.pictures, attached.fitted, plain.pictures) == (
        {"any": "pictures"},
        "a model",
        None,
    )
    same = (
        attached.save(tmp_path / "a.json").read_bytes() == plain.save(tmp_path / "b").read_bytes()
    )
    assert same
    assert OrbitResult.load(tmp_path / "a.json").pictures is None


def test_an_audit_without_run_and_data_has_a_page():
    found = symmetries.audit_model(NET, DATA, "c4", steps=2, progress=False)
    assert isinstance(found, AuditResult)
    assert "Is it invariant to c4?" in found.to_html()
