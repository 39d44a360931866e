"""Results to figures and one self-contained HTML page. Reads plain results, never torch."""

from symmetries.report.orbits import orbit_page
from symmetries.report.page import Page, render

__all__ = ["Page", "orbit_page", "render"]
