"""Reports: figures and one self-contained HTML page from plain results, without torch."""

from symmetries.report.audit_report import audit_page
from symmetries.report.fit_report import fit_page
from symmetries.report.orbit_report import orbit_page
from symmetries.report.page import Page, render
from symmetries.report.symmetry_report import symmetry_page

__all__ = ["Page", "audit_page", "fit_page", "orbit_page", "render", "symmetry_page"]
