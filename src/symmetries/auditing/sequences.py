"""Sequences of symbols, such as recognised text, and how far apart two of them are."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import invalid


def read_sequences(output: Any, count: int, blank: int | None = None) -> list[list[Any]]:  # noqa: ANN401
    """Return the symbols of each example.

    Args:
        output: a list of texts or of lists; whole numbers (N, T); or scores (N, T, K), of whose
            symbols the best is taken at each place.
        count: number of examples N.
        blank: for outputs of CTC: repeated symbols are one, and this symbol is left out.
    """
    remedy = "give N texts, whole numbers (N, T), or scores (N, T, K)"
    if isinstance(output, Tensor):
        if output.ndim == 3 and output.is_floating_point():
            output = output.argmax(-1)
        if output.ndim != 2 or output.is_floating_point():
            raise invalid("model", "sequences", f"shape {tuple(output.shape)}", remedy)
        output = output.tolist()
    if not isinstance(output, Sequence) or isinstance(output, str) or len(output) != count:
        raise invalid("model", f"{count} sequences", type(output).__name__, remedy)
    rows = [list(row) for row in output]
    if blank is None:
        return rows
    pairs = [list(zip([None, *row], row, strict=False)) for row in rows]
    return [[new for old, new in each if new not in (old, blank)] for each in pairs]


def edit_distance(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Return the smallest number of insertions, deletions and replacements from one to the other.

    Example:
        >>> edit_distance("kitten", "sitting")
        3
    """
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (left != right))
    return row[-1]


def sequence_errors(still: list[list[Any]], moved: list[list[Any]]) -> dict[str, Tensor]:
    """Edit distance by length of the longer (N,), and whether both are the same (N,)."""
    distances, same = [], []
    for a, b in zip(still, moved, strict=True):
        distances.append(edit_distance(a, b) / max(len(a), len(b), 1))
        same.append(float(a == b))
    return {
        "edit_distance": torch.tensor(distances, dtype=torch.float64),
        "agreement": torch.tensor(same, dtype=torch.float64),
    }
