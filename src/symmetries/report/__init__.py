"""Reports: figures and one self-contained HTML page from plain results, without torch."""

from collections.abc import Callable
from typing import Any

from symmetries.report.audit_report import audit_page
from symmetries.report.fit_report import fit_page
from symmetries.report.generator_report import generator_page
from symmetries.report.orbit_report import orbit_page
from symmetries.report.page import Page, render
from symmetries.report.plots import plot
from symmetries.report.prescribe_report import prescribe_page
from symmetries.report.sweep_report import sweep_page
from symmetries.report.symmetry_report import symmetry_page
from symmetries.report.watch_report import watch_page
from symmetries.report.wrap_report import wrap_page
from symmetries.results import (
    AuditResult,
    FitResult,
    GeneratorResult,
    OrbitResult,
    PrescribeResult,
    Result,
    SweepResult,
    SymmetryResult,
    WatchResult,
    WrapResult,
)

__all__ = [
    "audit_page",
    "fit_page",
    "generator_page",
    "orbit_page",
    "page_html",
    "plot",
    "prescribe_page",
    "sweep_page",
    "symmetry_page",
    "watch_page",
    "wrap_page",
]

PAGES: dict[type[Result], Callable[[Any], Page]] = {
    AuditResult: audit_page,
    FitResult: fit_page,
    GeneratorResult: generator_page,
    OrbitResult: orbit_page,
    PrescribeResult: prescribe_page,
    SweepResult: sweep_page,
    SymmetryResult: symmetry_page,
    WatchResult: watch_page,
    WrapResult: wrap_page,
}


def page_html(result: Result) -> str:
    """The page of a result as one HTML document.

    Args:
        result: of any command; it shows the pictures that are attached to it.
    """
    return render(PAGES[type(result)](result))
