"""Names of a package that are imported when they are first used, and names that were changed."""

import ast
import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


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
    where = {
        alias.name: node.module
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.asname == alias.name
    }
    names = sorted(where)

    def get(name: str) -> Any:  # noqa: ANN401 - whatever the package exports
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(where[name]), name)

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return names, get, listed


def former_name(package: str, name: str, renamed: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """What a name stood for before it was changed, with a warning; for ``__getattr__``.

    Args:
        package: its ``__name__``.
        name: that was asked for.
        renamed: by former name, what has another name now.
    """
    if name not in renamed:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    new = renamed[name].__name__
    text = f"{package}.{name} is now {new}; the old name will be removed"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
    return renamed[name]
