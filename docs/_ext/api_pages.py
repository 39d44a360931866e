"""Writes docs/api/: a page for each part of the package, from its docstrings."""

import importlib
import pkgutil
from pathlib import Path

from sphinx.application import Sphinx

import symmetries

FOLDER = Path(__file__).resolve().parents[1] / "api"
# The parts in reading order; others follow. Not shown: the command, which has a page of its own,
# and helpers that users do not need.
ORDER = ("groups", "actions", "distributions", "nn", "learners", "audit", "data", "training")
HIDDEN = {"cli", "caching", "kernels"}


def parts() -> list[str]:
    """Names of the modules and packages directly below the package."""
    names = {module.name for module in pkgutil.iter_modules(symmetries.__path__)} - HIDDEN
    return [name for name in ORDER if name in names] + sorted(names - set(ORDER))


def page(part: str) -> str:
    """What a part exports, or, where it exports nothing itself, its modules one by one."""
    name = f"symmetries.{part}"
    module = importlib.import_module(name)
    if not hasattr(module, "__path__"):
        directives = [f".. automodule:: {name}"]
    elif hasattr(module, "__all__"):
        directives = [f".. automodule:: {name}\n   :imported-members:"]
    else:
        below = pkgutil.walk_packages(module.__path__, f"{name}.")
        directives = [f".. automodule:: {child.name}" for child in below]
    body = "\n\n".join(directives)
    return f"# {name}\n\n```{{eval-rst}}\n{body}\n```\n"


def write(app: Sphinx) -> None:
    """Write the pages; those that did not change are left alone, so that builds stay short."""
    names = parts()
    pages = {name: page(name) for name in names}
    entries = "\n".join(names)
    pages["index"] = f"# API\n\n```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n"
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = FOLDER / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write, priority=100)
    return {"parallel_read_safe": True}
