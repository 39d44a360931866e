"""Matrix groups as text, so that learned groups are stored in models and given to commands."""

import json

import torch

from symmetries._validation.checks import invalid, short
from symmetries.groups.matrix import MatrixGroup

PREFIX = "matrix:"
MOST = 10_000  # numbers in the generators, which are small matrices


def matrix_group_text(group: MatrixGroup) -> str:
    """Return the text from which :func:`parse_matrix_group` builds exactly this group.

    Example:
        >>> turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
        >>> matrix_group_text(MatrixGroup(turn, ["turn"]))
        'matrix:{"generators":[[[0.0,-1.0],[1.0,0.0]]],"names":["turn"],"tolerance":1e-06,"units":["rad"]}'
    """
    content = {
        "generators": group.generators.tolist(),
        "names": list(group.names),
        "tolerance": group.tolerance,
        "units": [parameter.unit for parameter in group.parameters],
    }
    return PREFIX + json.dumps(content, separators=(",", ":"))


def parse_matrix_group(text: str) -> MatrixGroup:
    """Return the group of a text of :func:`matrix_group_text`.

    Args:
        text: "matrix:" and JSON with generators, names, units and the tolerance of closure.
    """
    remedy = "write it with group_name(group)"
    wrong = invalid("group", "matrix: and JSON of generators", short(text), remedy)
    try:
        content = json.loads(text.removeprefix(PREFIX))
        generators = torch.tensor(content["generators"], dtype=torch.float64)
        names, units = ([str(word) for word in content[key]] for key in ("names", "units"))
        tolerance = float(content["tolerance"])
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise wrong from error
    if generators.numel() > MOST:
        got = f"{generators.numel()} numbers"
        raise invalid("group", f"at most {MOST} numbers in the generators", got, remedy)
    return MatrixGroup(generators, names, units, tolerance)
