"""Reports: figures and one self-contained HTML page from plain results, without torch."""

from symmetries.report.audits import audit_page
from symmetries.report.fits import fit_page
from symmetries.report.orbits import orbit_page
from symmetries.report.page import Page, render
from symmetries.report.symmetries import symmetry_page

__all__ = ["Page", "audit_page", "fit_page", "orbit_page", "render", "symmetry_page"]
