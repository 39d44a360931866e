"""Writes docs/api/: a page for each part of the package, from its docstrings."""

import importlib
import inspect
import pkgutil
from pathlib import Path

from sphinx.application import Sphinx

import symmetries

FOLDER = Path(__file__).resolve().parents[1] / "api"
# The parts in reading order; others follow. Not shown: the command, which has a page of its own,
# and helpers that users do not need.
ORDER = ("groups", "actions", "distributions", "nn", "learners", "auditing", "data", "training")
HIDDEN = {"__main__", "audit", "cli", "ops", "_utils", "_validation"}


def parts() -> list[str]:
    """Names of the modules and packages directly below the package."""
    names = {module.name for module in pkgutil.iter_modules(symmetries.__path__)} - HIDDEN
    return [name for name in ORDER if name in names] + sorted(names - set(ORDER))


def page(part: str) -> str:
    """What a part exports; whatever it does not export is private."""
    name = f"symmetries.{part}"
    members = (
        "\n   :imported-members:" if hasattr(importlib.import_module(name), "__path__") else ""
    )
    return f"# {name}\n\n```{{eval-rst}}\n.. automodule:: {name}{members}\n```\n"


def front_page(entries: list[str]) -> str:
    """The names that ``import symmetries`` gives, with a line about each, and the parts."""
    rows = []
    for name in symmetries.__all__:
        thing = getattr(symmetries, name)
        first = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
        home = next(part for part in entries if name in exported(part))
        rows.append(f"- {{py:obj}}`{name} <symmetries.{home}.{name}>`: {first}")
    names = "\n".join(rows)
    tree = "\n".join(entries)
    text = "`import symmetries` gives these names, imported when they are first used:"
    return f"# API\n\n{text}\n\n{names}\n\n```{{toctree}}\n:maxdepth: 1\n\n{tree}\n```\n"


def exported(part: str) -> list[str]:
    """The names that a part exports."""
    return list(getattr(importlib.import_module(f"symmetries.{part}"), "__all__", ()))


def is_left_out(
    app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave out what scikit-learn adds to every estimator."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def write(app: Sphinx) -> None:
    """Write the pages; those that did not change are left alone, so that builds stay short."""
    names = parts()
    pages = {name: page(name) for name in names}
    pages["index"] = front_page(names)
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
