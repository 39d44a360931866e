"""Writes docs/api/: a page for each part of the package, from its docstrings."""

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

from sphinx.application import Sphinx

import symmetries

FOLDER = Path(__file__).resolve().parents[1] / "api"
# The parts in reading order; others follow. Not shown: the command, which has a page of its own,
# and helpers that users do not need.
ORDER = ("groups", "actions", "distributions", "nn", "learners", "auditing", "data", "training")
HIDDEN = {"__main__", "audit", "cli", "ops", "_utils", "_validation"}
# Shown beside what a part exports: what others return.
ALSO = {"distributions": ("symmetries.distributions.mixture",)}


def parts() -> list[str]:
    """Names of the modules and packages directly below the package."""
    names = {module.name for module in pkgutil.iter_modules(symmetries.__path__)} - HIDDEN
    return [name for name in ORDER if name in names] + sorted(names - set(ORDER))


def page(part: str) -> str:
    """What a part exports, or, where it exports nothing itself, its modules one by one."""
    name = f"symmetries.{part}"
    module = importlib.import_module(name)
    also = [importlib.import_module(child) for child in ALSO.get(part, ())]
    body = "\n\n".join(line for shown in (module, *also) for line in directives(shown))
    return f"# {name}\n\n```{{eval-rst}}\n{body}\n```\n"


def directives(module: ModuleType) -> list[str]:
    """What autodoc is to show of a module: itself, what it exports, or its modules."""
    name = module.__name__
    if not hasattr(module, "__path__"):
        return [f".. automodule:: {name}"]
    if hasattr(module, "__all__"):
        return [f".. automodule:: {name}\n   :imported-members:"]
    below = pkgutil.iter_modules(module.__path__, f"{name}.")
    return [line for child in below for line in directives(importlib.import_module(child.name))]


def is_left_out(
    app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave out what scikit-learn adds to every estimator."""
    return True if name.startswith("set_") and name.endswith("_request") else None


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
    app.connect("autodoc-skip-member", is_left_out)
    return {"parallel_read_safe": True}
