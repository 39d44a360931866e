"""Watching a stream of pictures for a change that has a name."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from symmetries._validation.checks import check_images, check_number, check_whole, invalid
from symmetries.data.background import background
from symmetries.data.base import NEARLY, check_unit_range
from symmetries.monitoring.eprocess import ExchangeabilityTest
from symmetries.monitoring.losses import Loss, LossCurves, Model
from symmetries.monitoring.moves import WAYS, moves_of
from symmetries.monitoring.naming import Change, Responses
from symmetries.monitoring.readers import ChangeReader
from symmetries.training.checkpoint import load_state, rebuilding, write_state
from symmetries.training.step import seeded

BINS = 64
MEASURED = 400  # held-out pictures on which a model is measured
KEPT = 2000  # features of the latest pictures, from which a change is measured
LEAST = 100  # pictures of a reference
SHOWN = 6  # pictures of the reference and of the stream that a page shows
TRACED = 400  # points of the evidence that are kept
NAME = "watch"  # of the stored state


@dataclass(frozen=True)
class Finding:
    """What is known of a stream after some pictures.

    Args:
        number: pictures so far.
        alarm: whether there was an alarm; false alarms have probability alpha at most, for ever.
        evidence: logarithm to base 10 of the largest evidence so far; the limit is K / alpha.
        since: number of pictures before the change; None without an alarm.
        change: its name and its size; None without an alarm.
        loss: what it costs the model; None without one, or without a name.
    """

    number: int
    alarm: bool
    evidence: float
    since: int | None = None
    change: Change | None = None
    loss: Loss | None = None


class Watcher:
    """Watches pictures that come one after the other, against a reference.

    Half of the reference teaches a network to read changes that are made on purpose; the other half
    is what the stream is compared with by :class:`ExchangeabilityTest`, two processes for each kind
    of change and each of its directions. After an alarm the change is named and measured. The test
    may be looked at after every picture; the name and the size are estimates.

    Args:
        reader: fitted.
        responses: of held-out pictures.
        edges: of the bins of each score, (S, B - 1).
        test: of the stream so far.
        latest: features (n, F) of the latest pictures.
        position: where the stream is to go on; for the caller.
        losses: of a model under each change.
        shown: some pictures of the reference (n, C, H, W).
    """

    def __init__(
        self,
        reader: ChangeReader,
        responses: Responses,
        edges: NDArray[np.float32],
        test: ExchangeabilityTest,
        latest: Tensor | None = None,
        position: Any = None,  # noqa: ANN401 - plain data
        losses: LossCurves | None = None,
        shown: Tensor | None = None,
    ) -> None:
        self.reader, self.responses, self.edges, self.test = reader, responses, edges, test
        self.latest = torch.zeros(0, len(responses.centre)) if latest is None else latest
        self.position, self.losses = position, losses
        self.shown = torch.zeros(0, *reader.shape) if shown is None else shown
        self.arrived = self.shown[:0]  # the latest pictures
        self.trace: list[tuple[int, float]] = []  # numbers of pictures, and evidence
        self.known: Finding | None = None  # the latest

    @classmethod
    def fit(
        cls,
        reference: Tensor,
        alpha: float = 0.01,
        seed: int = 0,
        fill: float | None = None,
        model: Model | None = None,
        labels: Tensor | None = None,
    ) -> "Watcher":
        """Learn to read changes off a reference.

        Args:
            reference: pictures (N, C, H, W) from 0 to 1, at least 100, in any order.
            alpha: largest probability of any false alarm, whenever one looks.
            seed: of the split, the network and the test.
            fill: value of the background; None finds it at the borders.
            model: from pictures to logits; the accuracy that a change costs it is measured, too.
            labels: (N,) that it should give; by default what it answers for the reference.
        """
        check_images(reference)
        check_unit_range(reference, "reference", NEARLY)
        if fill is not None:
            check_number(fill, "fill", 0, 1)
        check_number(alpha, "alpha", 1e-9, 0.5)
        check_whole(seed, "seed", 0, 2**63 - 1)
        if len(reference) < LEAST:
            raise invalid("reference", f"at least {LEAST} pictures", len(reference), "give more")
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(reference), generator=generator)
        taught, held_out = (reference[part].float() for part in order.tensor_split(2))
        value = background(taught) if fill is None else fill
        channels, height, width = reference.shape[1:]
        with seeded(seed):
            reader = ChangeReader((channels, height, width), moves_of(channels), value)
        reader.learn(taught, generator)
        responses = Responses.measure(reader.eval(), held_out)
        with torch.no_grad():
            inner = torch.linspace(0, 1, BINS + 1)[1:-1]
            scores = reader.scores(reader.features(taught))
            edges = scores.quantile(inner, 0).T.contiguous().numpy()
            bins = _bins(reader.scores(reader.features(held_out)), edges)
        test, losses = ExchangeabilityTest(bins, BINS, alpha, seed), None
        if model is not None:
            rows, shown = order.tensor_split(2)[1][:MEASURED], held_out[:MEASURED]
            with torch.no_grad():
                own = model(shown).argmax(-1).cpu() if labels is None else labels[rows]
            losses = LossCurves.measure(model, own, shown, reader.moves, value)
        return cls(reader, responses, edges, test, losses=losses, shown=held_out[:SHOWN])

    def update(self, pictures: Tensor) -> Finding:
        """Take the next pictures (n, C, H, W) of the stream, and return what is known now."""
        check_images(pictures)
        if tuple(pictures.shape[1:]) != self.reader.shape:
            got = f"{tuple(pictures.shape[1:])}"
            raise invalid("stream", f"pictures {self.reader.shape}", got, "resize them")
        if len(pictures) == 0:
            return self.finding()
        check_unit_range(pictures, "stream", NEARLY)
        with torch.no_grad():
            features = self.reader.features(pictures.float())
        for row in _bins(self.reader.scores(features), self.edges):
            self.test.update(row)
        self.latest = torch.cat([self.latest, features])[-KEPT:]
        self.arrived = torch.cat([self.arrived, pictures.float()])[-SHOWN:]
        found = self.finding()
        self.trace.append((found.number, found.evidence))
        if len(self.trace) > TRACED:
            self.trace = self.trace[1::2]
        return found

    def finding(self) -> Finding:
        """What is known now."""
        if self.known is None or self.known.number != self.test.number:
            self.known = self._found()
        return self.known

    def _found(self) -> Finding:
        number, evidence = self.test.number, float(self.test.peak.max()) / math.log(10)
        if not self.test.alarm:
            return Finding(number, False, evidence)
        since = min(self.test.since, number - 1)
        recent = self.latest[-(number - since) :]
        change = self.responses.name(recent)
        loss = None if self.losses is None else self.losses.expected(change)
        return Finding(number, True, evidence, since, change, loss)

    def save(self, folder: Path) -> Path:
        """Write the network and the state of the stream, whole or not at all."""
        parts = {name: getattr(self.responses, name) for name in ("centre", "covariance", "curves")}
        tensors = {f"reader.{name}": value for name, value in self.reader.state_dict().items()}
        meta = {
            "shape": list(self.reader.shape),
            "fill": self.reader.fill,
            "held_out": self.responses.held_out,
            "test": self.test.state(),
            "position": self.position,
            "trace": self.trace,
        }
        own = {"edges": torch.from_numpy(self.edges), "latest": self.latest}
        own |= {"shown": self.shown, "arrived": self.arrived}
        if self.losses is not None:
            own |= {f"loss.{kind}": curve for kind, curve in self.losses.curves.items()}
        return write_state(folder, NAME, {**tensors, **parts, **own}, meta)

    @classmethod
    def load(cls, folder: Path) -> "Watcher":
        """Read what :meth:`save` wrote; the stream goes on, bit for bit."""
        tensors, meta = load_state(folder, NAME)
        with rebuilding(folder, "a watcher"):
            channels, height, width = meta["shape"]
            moves = moves_of(channels)
            reader = ChangeReader((channels, height, width), moves, meta["fill"]).eval()
            weights = {k.removeprefix("reader."): v for k, v in tensors.items() if "reader." in k}
            reader.load_state_dict(weights)
            responses = Responses(
                moves,
                max(height, width),
                tensors["centre"],
                tensors["covariance"],
                tensors["curves"],
                meta["held_out"],
            )
            test = ExchangeabilityTest.restore(meta["test"])
            edges, latest = tensors["edges"].numpy(), tensors["latest"]
            _check_fit(responses, reader.directions.shape[1], edges, test, latest, meta["position"])
            known = {k.removeprefix("loss."): v for k, v in tensors.items() if "loss." in k}
            losses = LossCurves(moves, responses.side, known) if known else None
            how = (latest, meta["position"], losses, tensors["shown"])
            watcher = cls(reader, responses, edges, test, *how)
            watcher.arrived = tensors["arrived"]
            watcher.trace = [(int(number), float(level)) for number, level in meta["trace"]]
            _check_shown(watcher)
            return watcher


def _check_fit(
    responses: Responses,
    scores: int,
    edges: NDArray[np.float32],
    test: ExchangeabilityTest,
    latest: Tensor,
    position: Any,  # noqa: ANN401 - plain data
) -> None:
    """Raise an error if the parts of a stored state do not fit each other."""
    k, features = len(responses.moves), len(responses.centre)
    parts = (responses.centre, responses.covariance, responses.curves, latest)
    check_whole(responses.held_out, "held_out", 1, 2**53)
    seen = min(KEPT, test.number)
    curves = (len(WAYS), k, responses.curves.shape[2], features)
    sizes = [(features,), (features, features), curves, (seen, features)]
    fits = [tuple(part.shape) for part in parts] == sizes and features >= k
    fits = fits and all(bool(part.isfinite().all()) for part in parts)
    fits = fits and test.counts.shape == (scores, edges.shape[1] + 1) and len(edges) == scores
    fits = fits and isinstance(position, dict | None)
    responses.whitening(1)  # fails where the covariance is none
    if not fits:
        raise invalid("state", "parts that fit each other", "others", "begin anew")


def _check_shown(watcher: Watcher) -> None:
    """Raise an error if stored pictures, evidence or losses are not those of a watcher."""
    for part in (watcher.shown, watcher.arrived):
        check_images(part)
        if tuple(part.shape[1:]) != watcher.reader.shape or len(part) > SHOWN:
            raise invalid("state", "pictures of the reference's shape", part.shape, "begin anew")
    losses = watcher.losses
    if losses is not None and set(losses.curves) != {move.kind for move in losses.moves}:
        raise invalid("state", "a loss for each change", sorted(losses.curves), "begin anew")


def _bins(scores: Tensor, edges: NDArray[np.float32]) -> NDArray[np.int64]:
    """The bins (n, S) of scores (n, S)."""
    columns = zip(edges, scores.T.numpy(), strict=True)
    return np.stack([np.searchsorted(edge, column) for edge, column in columns], 1)
