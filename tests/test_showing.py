"""Results show themselves: the page of the command, a figure, and a frame in a notebook."""

import html

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import symmetries
from symmetries.report import PAGES, plot
from symmetries.results import (
    AuditResult,
    Estimate,
    OrbitResult,
    PrescribeResult,
    WatchResult,
    WrapResult,
)
from symmetries.results.showing import PagedResult, ShownResult

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


def test_results_of_wrap_prescribe_and_watch_have_a_page_and_a_figure(results):
    known = {"run": results["orbit"].run}
    number = Estimate(mean=0.8, standard_error=0.02, low=0.76, high=0.84)
    both = {"bare": number, "wrapped": number, "gain": number, "moves": 0.3}
    wrapped = WrapResult(
        warnings=(), model="net", output="logits", score="accuracy", group="rotation", range=(),
        limit=0.3, rule="mode", threshold=1.0, views=1, candidates=(), chosen_on=9, measured_on=9,
        untouched=both, moved=both, reference=results["orbit"].data, **known,
    )  # fmt: skip
    tried = [{"amounts": {"rotation": amount}, "gain": number} for amount in (15.0, 30.0)]
    prescribed = PrescribeResult(
        warnings=(), moves=(), conflicts=(), tried=tried, gain=number, robustness=number,
        accuracy=0.8, networks=9, fill=0.0, code={}, data=results["orbit"].data, **known,
    )  # fmt: skip
    watched = WatchResult(
        reference=results["orbit"].data, pictures=9, alarm=False, alpha=0.01, evidence=0.3,
        limit=2.0, since=None, name=None, parameters=(), explained=None, **known,
    )  # fmt: skip
    traced = watched.model_copy(update={"trace": ((4, 0.1), (9, 0.3))})
    for result in (wrapped, prescribed, watched, traced):
        assert "</html>" in result.to_html()
        assert result._repr_html_().startswith("<iframe")
        assert isinstance(result.plot(), Figure)


def test_every_result_that_shows_itself_has_a_page_and_a_figure():
    shown = {*PagedResult.__subclasses__(), *ShownResult.__subclasses__()} - {ShownResult}
    assert shown <= set(PAGES)
    assert shown <= set(plot.registry)
