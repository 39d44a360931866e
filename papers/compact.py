"""Results as JSON that stays small: what fits on a line is on one, numbers have seven digits."""

import json
from typing import Any

WIDTH = 300
DIGITS = 7  # of single precision, in which results are computed


def rounded(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The same content with numbers of at most seven digits.

    Example:
        >>> rounded({"accuracy": [95.99999785423279, 3]})
        {'accuracy': [96.0, 3]}
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list | tuple) else value


def compact(value: Any, indent: int = 0) -> str:  # noqa: ANN401 - JSON
    """JSON in which lists and objects that fit on a line take one.

    Example:
        >>> print(compact({"rows": [1, 2]}))
        {"rows": [1, 2]}
    """
    line = json.dumps(value)
    if len(line) + indent <= WIDTH or not isinstance(value, dict | list):
        return line
    pad, end = "\n" + " " * (indent + 1), "\n" + " " * indent
    if isinstance(value, list):
        return f"[{pad}" + f",{pad}".join(compact(v, indent + 1) for v in value) + f"{end}]"
    parts = (f"{json.dumps(name)}: {compact(v, indent + 1)}" for name, v in value.items())
    return f"{{{pad}" + f",{pad}".join(parts) + f"{end}}}"
