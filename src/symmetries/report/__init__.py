"""Reports: figures and one self-contained HTML page from plain results, without torch."""

from collections.abc import Callable
from typing import Any, get_type_hints

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
from symmetries.results import Result

__all__ = ["page_html", "plot"]

PAGES: dict[type[Result], Callable[[Any], Page]] = {
    get_type_hints(page)["result"]: page
    for page in (
        *(audit_page, fit_page, generator_page, orbit_page, prescribe_page),
        *(sweep_page, symmetry_page, watch_page, wrap_page),
    )
}


def page_html(result: Result) -> str:
    """Return the page of a result as one HTML document.

    Args:
        result: of any command; it shows the pictures that are attached to it.
    """
    return render(PAGES[type(result)](result))
