"""All measures of each example, in one pass over the data."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from symmetries.auditing.elements import Moves
from symmetries.auditing.metrics import distribution_error, logit_error, normalised_logit_error
from symmetries.auditing.models import Model, model_device, untouched
from symmetries.auditing.saliency import Saliency, map_similarity

OUTPUT_ERRORS = {
    "logit_invariance": logit_error,
    "normalised_logit_invariance": normalised_logit_error,
    "distribution_invariance": distribution_error,
}
MOVED = "accuracy_moved"
SIMILARITY = "saliency_similarity"
ROUND_TRIP = " there and back"


def examine(
    model: Model,
    x: Tensor,
    y: Tensor,
    moves: Moves,
    saliency: Saliency | None,
    *,
    batch_size: int = 256,
    round_trip: bool = True,
    watch: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> dict[str, Tensor]:
    """Return every measure of every example, averaged over the elements.

    Args:
        model: callable from inputs to logits.
        x: (N, ...).
        y: (N,) class numbers.
        moves: the elements.
        saliency: function that returns the maps; None, for a model without gradients, skips SI.
        batch_size: number of examples at once.
        round_trip: whether to measure g^-1 (g x) as well as g x, which shows the effect of
            resampling alone.
        watch: wraps the loop over the batches, for a progress bar.

    Returns:
        Tensors (N,) on the CPU: "accuracy", "accuracy_moved", LI, normalised LI, DI and SI by
        their full names, and the latter five with ``ROUND_TRIP`` appended to the name.
    """
    device = model_device(model, x)
    rows: list[dict[str, Tensor]] = []
    with untouched(model):
        for start in watch(range(0, len(x), batch_size)):
            batch = x[start : start + batch_size].to(device)
            target = y[start : start + batch_size].to(device)
            still = _Look(model, saliency, batch, target)
            sums = {"accuracy": still.correct * len(moves)}
            for element in moves.of(start, start + len(batch), device):
                moved = _Look(model, saliency, moves.action(element, batch), target)
                _add(sums, MOVED, moved.correct)
                back = None if moved.maps is None else moves.back(element, moved.maps)
                _compare(sums, still, moved.logits, back, "")
                if round_trip:
                    _add_round_trip(sums, still, moves, element)
            rows.append({name: (total / len(moves)).cpu() for name, total in sums.items()})
    return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}


class _Look:
    """Logits and saliency maps of a model for a batch."""

    def __init__(self, model: Model, saliency: Saliency | None, x: Tensor, target: Tensor) -> None:
        self.model, self.saliency, self.x, self.target = model, saliency, x, target
        with torch.no_grad():
            self.logits = model(x)
        self.correct = (self.logits.argmax(1) == target).to(self.logits.dtype)
        self.maps = None if saliency is None else saliency(model, x, target)

    def at(self, other: Tensor) -> "_Look":
        """Return the logits and saliency maps for other inputs."""
        return _Look(self.model, self.saliency, other, self.target)


def _add_round_trip(
    sums: dict[str, Tensor],
    still: _Look,
    moves: Moves,
    element: object,
) -> None:
    there_and_back = moves.there_and_back(element, still.x)
    if torch.equal(there_and_back, still.x):  # nothing was resampled, so the result is the same
        _add(sums, MOVED + ROUND_TRIP, still.correct)
        _compare(sums, still, still.logits, still.maps, ROUND_TRIP)
        return
    again = still.at(there_and_back)
    _add(sums, MOVED + ROUND_TRIP, again.correct)
    maps = again.maps
    if maps is not None:
        maps = moves.back(element, moves.place(element, maps))
    _compare(sums, still, again.logits, maps, ROUND_TRIP)


def _compare(
    sums: dict[str, Tensor], still: _Look, logits: Tensor, maps: Tensor | None, suffix: str
) -> None:
    for name, error in OUTPUT_ERRORS.items():
        _add(sums, name + suffix, error(still.logits, logits))
    if still.maps is not None and maps is not None:
        _add(sums, SIMILARITY + suffix, map_similarity(still.maps, maps))


def _add(sums: dict[str, Tensor], name: str, values: Tensor) -> None:
    sums[name] = sums[name] + values if name in sums else values
