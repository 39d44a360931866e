"""All measures of each example, in one pass over the data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from symmetries.auditing.elements import Moves
from symmetries.auditing.metrics import (
    distribution_error,
    logit_error,
    margin,
    normalised_logit_error,
)
from symmetries.auditing.models import Model, model_device, untouched
from symmetries.auditing.saliency import Saliency, SalientPixels, map_similarity

OUTPUT_ERRORS = {
    "logit_invariance": logit_error,
    "normalised_logit_invariance": normalised_logit_error,
    "distribution_invariance": distribution_error,
}
MOVED = "accuracy_moved"
AGREEMENT = "agreement"
PREDICTED, MOVED_TO, LABEL = "predicted", "predicted when moved", "label"
MARGIN, MARGIN_CHANGE = "margin", "margin_change"
SIMILARITY = "saliency_similarity"
CURVE, PIXELS = "saliency_curve", "saliency_pixels"
ROUND_TRIP = " there and back"
STILL = "accuracy of those"


def examine(
    model: Model,
    x: Tensor,
    y: Tensor | None,
    moves: Moves,
    saliency: Saliency | None,
    *,
    closely: Tensor | None = None,
    batch_size: int = 256,
    round_trip: bool = True,
) -> dict[str, Tensor]:
    """Return every measure of every example, averaged over the elements.

    Args:
        model: callable from inputs to logits.
        x: (N, ...).
        y: (N,) class numbers; None leaves out accuracy, and saliency explains predicted classes.
        moves: the elements.
        saliency: function that returns the maps; None, for a model without gradients, skips SI.
        closely: (N,) bool, the M examples for saliency and round trips; all by default.
        batch_size: number of examples at once.
        round_trip: whether to measure g^-1 (g x) as well as g x, which shows the effect of
            resampling alone.

    Returns:
        Tensors on the CPU, (N,): "label", "predicted", "accuracy", "accuracy_moved", "agreement",
        "margin", its change, LI, normalised LI and DI by their full names; (N, S): the classes
        predicted when moved. And (M,): SI and those with ``ROUND_TRIP``
        appended to the name; for :class:`SalientPixels` also (M, T), by threshold.
    """
    device = model_device(model, x)
    mask = torch.ones(len(x), dtype=torch.bool) if closely is None else closely
    rows: list[dict[str, Tensor]] = []
    with untouched(model):
        for start in range(0, len(x), batch_size):
            stop = start + batch_size
            batch = x[start:stop].to(device)
            target = None if y is None else y[start:stop].to(device)
            chosen = mask[start:stop].nonzero()[:, 0].to(device)
            outputs = _Outputs(model, batch, target)
            looks = _Looks(model, saliency, moves, outputs, chosen, round_trip)
            for element in moves.of(start, start + len(batch), device):
                outputs.compare(moves.action(element, batch))
                looks.compare(element)
            sums = outputs.sums | looks.sums
            found = {name: (total / len(moves)).cpu() for name, total in sums.items()}
            rows.append(found | outputs.still_rows() | looks.still_rows())
    return joined(rows)


def joined(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return numbers of all parts by name, one after the other; a part may lack some names.

    Example:
        >>> {n: len(v) for n, v in joined([{"a": torch.ones(2)}, {"b": torch.ones(1)}]).items()}
        {'a': 2, 'b': 1}
    """
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: torch.cat([part[name] for part in parts if name in part]) for name in names}


class _Outputs:
    """Logits of a batch, and sums over elements of how they change when it is moved."""

    def __init__(self, model: Model, x: Tensor, target: Tensor | None) -> None:
        self.model, self.x, self.target = model, x, target
        with torch.no_grad():
            self.logits = model(x)
        self.leading = self.logits.topk(2, 1).indices
        self.margin = margin(self.logits, self.leading)
        self.sums: dict[str, Tensor] = {}
        self.moved_to: list[Tensor] = []

    def still_rows(self) -> dict[str, Tensor]:
        """Return the numbers that are not summed over the elements."""
        found = {MARGIN: self.margin.cpu(), PREDICTED: self.logits.argmax(1).cpu()}
        found[MOVED_TO] = torch.stack(self.moved_to, 1).cpu()
        if self.target is not None:
            found[LABEL] = self.target.cpu()
            found["accuracy"] = self.correct(self.logits, slice(None)).cpu()
        return found

    def compare(self, moved: Tensor) -> None:
        """Add the measures of the moved batch."""
        with torch.no_grad():
            logits = self.model(moved)
        self.moved_to.append(logits.argmax(1))
        self.add(self.sums, logits, slice(None), "")
        change = (margin(logits, self.leading) - self.margin).abs()
        add(self.sums, MARGIN_CHANGE, change)

    def add(
        self, sums: dict[str, Tensor], logits: Tensor, rows: "slice | Tensor", suffix: str
    ) -> None:
        """Add accuracy, agreement and errors of the moved logits of some examples."""
        if self.target is not None:
            add(sums, MOVED + suffix, self.correct(logits, rows))
            if suffix:  # the same examples as they are, to compare with
                add(sums, STILL, self.correct(self.logits[rows], rows))
        same = logits.argmax(1) == self.logits[rows].argmax(1)
        add(sums, AGREEMENT + suffix, same.to(logits.dtype))
        for name, error in OUTPUT_ERRORS.items():
            add(sums, name + suffix, error(self.logits[rows], logits))

    def correct(self, logits: Tensor, rows: "slice | Tensor") -> Tensor:
        if self.target is None:
            return torch.full_like(logits[:, 0], torch.nan)
        return (logits.argmax(1) == self.target[rows]).to(logits.dtype)


class _Looks:
    """Saliency maps and round trips of some examples of a batch."""

    def __init__(
        self,
        model: Model,
        saliency: Saliency | None,
        moves: Moves,
        outputs: _Outputs,
        chosen: Tensor,
        round_trip: bool,
    ) -> None:
        self.model, self.saliency, self.moves = model, saliency, moves
        self.outputs, self.chosen, self.round_trip = outputs, chosen, round_trip
        self.x = outputs.x[chosen]
        explained = outputs.logits.argmax(1) if outputs.target is None else outputs.target
        self.explained = explained[chosen]
        self.maps = self.look(self.x)
        self.sums: dict[str, Tensor] = {}

    def look(self, x: Tensor) -> "_Maps | None":
        """Compute the saliency maps of the chosen examples."""
        if self.saliency is None or len(x) == 0:
            return None
        found = self.saliency(self.model, x, self.explained)
        if not isinstance(self.saliency, SalientPixels):
            return _Maps(found)
        kept = self.saliency.above(found)
        return _Maps(self.saliency.paper(found), tuple(kept), self.saliency.pixels(found))

    def still_rows(self) -> dict[str, Tensor]:
        """Return the number of salient pixels, which needs no moved inputs."""
        pixels = None if self.maps is None else self.maps.pixels
        return {} if pixels is None else {PIXELS: pixels.cpu()}

    def compare(self, element: Any) -> None:  # noqa: ANN401 - elements differ by group
        """Add the measures of one element."""
        if len(self.x) == 0:
            return
        part = self.moves.some(element, self.chosen)
        moved = None if self.maps is None else self.look(self.moves.action(part, self.x))
        if self.maps is not None and moved is not None:
            self.maps.compare(self.sums, moved.through(lambda m: self.moves.back(part, m)), "")
        if self.round_trip:
            self.compare_round_trip(part)

    def compare_round_trip(self, part: Any) -> None:  # noqa: ANN401
        """Add the same measures for inputs that were moved there and back."""
        there_and_back = self.moves.there_and_back(part, self.x)
        maps = self.maps
        if torch.equal(there_and_back, self.x):  # nothing was resampled: the result is the same
            logits = self.outputs.logits[self.chosen]
        else:
            with torch.no_grad():
                logits = self.model(there_and_back)
            again = None if maps is None else self.look(there_and_back)
            maps = again and again.through(
                lambda m: self.moves.back(part, self.moves.place(part, m))
            )
        self.outputs.add(self.sums, logits, self.chosen, ROUND_TRIP)
        if self.maps is not None and maps is not None:
            self.maps.compare(self.sums, maps, ROUND_TRIP)


@dataclass(frozen=True)
class _Maps:
    """Saliency maps of one set of inputs.

    Args:
        main: the paper's, or those of the user's own function.
        by_threshold: those of every threshold, if there are any.
        pixels: (M, T), how many pixels are left at each.
    """

    main: Tensor
    by_threshold: tuple[Tensor, ...] = ()
    pixels: Tensor | None = None

    def through(self, move: Callable[[Tensor], Tensor]) -> "_Maps":
        """Return the maps after a function has moved each of them."""
        return _Maps(move(self.main), tuple(move(maps) for maps in self.by_threshold))

    def compare(self, sums: dict[str, Tensor], other: "_Maps", suffix: str) -> None:
        """Add similarities of these maps to others."""
        add(sums, SIMILARITY + suffix, map_similarity(self.main, other.main))
        if self.by_threshold:
            pairs = zip(self.by_threshold, other.by_threshold, strict=True)
            similar = torch.stack([map_similarity(a, b) for a, b in pairs], 1)
            add(sums, CURVE + suffix, similar)


def add(sums: dict[str, Tensor], name: str, values: Tensor) -> None:
    """Add values to the sum of a name, or begin it."""
    sums[name] = sums[name] + values if name in sums else values
