"""Public names of a package, imported at once or when they are first used."""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def public_names(file: str) -> dict[str, str]:
    """Return the modules of the names that a package exports: imported as themselves, ``A as A``.

    Args:
        file: the ``__file__`` of the package.
    """
    return {
        alias.name: node.module
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.asname == alias.name
    }


def lazy_names(
    package: str, file: str
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    The package's ``__init__.py`` imports its public names under ``if TYPE_CHECKING:``, where type
    checkers and editors see them. This reads the imports there, and does one when its name is used.

    Args:
        package: its ``__name__``.
        file: its ``__file__``.

    Example:
        >>> import symmetries
        >>> names, get, _ = lazy_names("symmetries", symmetries.__file__)
        >>> "Cyclic" in names, get("Cyclic")(4)
        (True, Cyclic(n=4))
    """
    where = public_names(file)
    names = sorted(where)

    def get(name: str) -> Any:  # noqa: ANN401 - whatever the package exports
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(where[name]), name)

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return names, get, listed
