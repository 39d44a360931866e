"""Which pictures a wrapped model moves: rules that are fixed beforehand, chosen on held-out data.

A picture is moved where its most likely pose is more likely than the pose that it has, by so many
nats. The threshold, and whether several views are worth it, are chosen on held-out pictures of the
reference: the best score on moved ones among the rules by which pictures as they are lose no more
than a limit (0.3 points), their standard error included. The bare model is always allowed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from symmetries.actions.colours import ColourAction
from symmetries.analysis.canonicalised import MOVING, CanonicalisedModel, within_range
from symmetries.auditing.answers import plain
from symmetries.auditing.boxes import match_boxes, read_boxes
from symmetries.auditing.estimate import estimate
from symmetries.auditing.representations import embedding_errors, map_errors
from symmetries.auditing.sequences import read_sequences
from symmetries.auditing.summarise import estimate_share
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.frames import radii
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.warp import warp
from symmetries.results import Candidate, Compared, Estimate

THRESHOLDS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # nats
LIMIT = 0.3  # points that pictures as they are may lose
BATCH = 64  # converted ONNX files keep what is between their layers: 90 MB for a line of text
NEAR = 0.05  # of the longer side: points that are nearer are the same
INNER = 0.8  # radius, in half-images, of what stays in the frame when it is turned


@dataclass(frozen=True)
class Scores:
    """Scores of pictures, each in [0, 1], by the way in which the model saw them.

    Args:
        ratio: (N,) log-ratio of the most likely pose and none.
        bare: (N,) as they are.
        mode: (N,) in the most likely pose.
        views: (N,) in several poses; None for one view.
        u: (N, D) coordinates of the most likely pose.
    """

    ratio: Tensor
    bare: Tensor
    mode: Tensor
    views: Tensor | None
    u: Tensor

    def by(self, rule: str, threshold: float | None) -> Tensor:
        """Return scores (N,) by a rule."""
        if threshold is None:
            return self.bare
        moved = self.mode if rule == "mode" or self.views is None else self.views
        return torch.where(self.ratio > threshold, moved, self.bare)

    def rows(self, chosen: Tensor) -> "Scores":
        """Return the scores of some pictures only."""
        views = None if self.views is None else self.views[chosen]
        parts = (self.ratio[chosen], self.bare[chosen], self.mode[chosen], views, self.u[chosen])
        return Scores(*parts)


def choose_rule(
    untouched: Scores, moved: Scores, limit: float = LIMIT
) -> tuple[Candidate, tuple[Candidate, ...]]:
    """The best rule by which pictures as they are lose at most ``limit`` points, and all rules."""
    rules = [("unmoved", None), *(("mode", t) for t in THRESHOLDS)]
    rules += [] if untouched.views is None else [("views", t) for t in THRESHOLDS]
    found = []
    for rule, threshold in rules:
        still = untouched.by(rule, threshold)
        lost = 100 * (untouched.bare - still)
        error = float(lost.std()) / math.sqrt(len(lost)) if threshold is not None else 0.0
        found.append(
            Candidate.model_validate(
                {
                    "rule": rule,
                    "threshold": threshold,
                    "untouched": float(still.mean()),
                    "loss": float(lost.mean()),
                    "loss_error": error,
                    "moved": float(moved.by(rule, threshold).mean()),
                    "allowed": float(lost.mean()) + error <= limit,
                }
            )
        )
    allowed = [one for one in found if one.allowed]
    # Where scores are equal: fewer views, then fewer pictures that are moved.
    cost = {"unmoved": 0, "mode": 1, "views": 2}
    best = max(allowed, key=lambda c: (c.moved, -cost[c.rule], c.threshold or 0.0))
    return best, tuple(found)


def compared(scores: Scores, chosen: Candidate) -> Compared:
    """Return the bare model and the wrapped one."""
    wrapped = scores.by(chosen.rule, chosen.threshold)
    moves = scores.ratio > (math.inf if chosen.threshold is None else chosen.threshold)
    return Compared(
        bare=estimate_share(scores.bare),
        wrapped=estimate_share(wrapped),
        gain=paired(100 * (wrapped - scores.bare)),
        moves=float(moves.double().mean()),
    )


def paired(differences: Tensor) -> Estimate:
    """Return the mean of differences (N,) in points with its interval.

    Where no picture differs, one in 3.7 / N could still do so (95 %, both sides).
    """
    found = estimate(differences)
    if bool((differences == 0).all()):
        half = 100 * 3.7 / len(differences)
        return found.model_copy(update={"low": -half, "high": half})
    return found


@torch.no_grad()
def score(
    module: CanonicalisedModel,
    images: Tensor,
    planted: Tensor,
    targets: Any,  # noqa: ANN401 - labels (N,), or a list of batches of answers
) -> Scores:
    """Return scores of pictures (N, C, H, W) after known moves.

    Args:
        module: with the largest number of views.
        images: (N, C, H, W), as they are.
        planted: (N, D) coordinates of moves s, zeros for none.
        targets: classes (N,), or what the bare model answers for pictures as they are.
    """
    device = module.reader.rows.device
    parts: list[list[Tensor]] = []
    for start in range(0, len(images), BATCH):
        x, s = (t[start : start + BATCH].to(device) for t in (images, planted))
        y = moved_pictures(module, x, s)
        u, weight, ratio = module.reader(y)
        every = torch.ones_like(ratio, dtype=torch.bool)
        answers = [
            module.answer(y, u[:, :1], torch.ones_like(weight[:, :1]), ~every),
            module.answer(y, u[:, :1], torch.ones_like(weight[:, :1]), every),
        ]
        if u.shape[1] > 1:
            answers.append(module.answer(y, u, weight, every))
        target = targets[start : start + BATCH]
        agree = scorer(module, s, x)
        found = [agree(answer, target) for answer in answers]
        parts.append([part.double().cpu() for part in (ratio, *found, u[:, 0])])
    joined = [torch.cat(column) for column in zip(*parts, strict=True)]
    views = joined[3] if len(joined) == 5 else None
    return Scores(joined[0], joined[1], joined[2], views, joined[-1])


def moved_pictures(module: CanonicalisedModel, x: Tensor, s: Tensor) -> Tensor:
    """Return pictures T_s x (N, C, H, W); those with s = 0 stay as they are, to the bit."""
    chart, level = module.chart, module.reader.ground + module.frame.fill
    y = x
    if chart.moves_pixels:
        padding: Any = "constant" if module.frame.plain else "reflect"
        theta = affine_inverse(chart.matrix(s))[:, :2]
        y = warp(x - level, theta, interpolation="bicubic", padding=padding) + level
        y = within_range(y, x, level)
    if chart.colours is not None:
        y = ColourAction(chart.colours)(chart.colour(s), y.clamp(0, 1))
    return torch.where((s == 0).all(1)[:, None, None, None], x, y)


def draw_moves(chart: Chart, widths: dict[str, float], count: int, seed: int) -> Tensor:
    """Coordinates (count, D) of moves, uniform within half-widths by name, or on a finite group."""
    generator = torch.Generator().manual_seed(seed)
    u = chart.draw(torch.rand(count, len(chart.coordinates), generator=generator))
    factors = [widths.get(c.name, c.reach) / c.reach if c.reach else 1.0 for c in chart.coordinates]
    return u * torch.tensor(factors)


def bare_answers(module: CanonicalisedModel, images: Tensor) -> Tensor:
    """Return what the bare model answers for pictures as they are: classes (N,), or answers."""
    device = module.reader.rows.device
    with torch.no_grad():
        parts = [plain(module.model(x.to(device))) for x in images.split(BATCH)]
    if module.kind in ("logits", "probabilities"):
        return torch.cat([part.argmax(-1).cpu() for part in parts])
    if not all(isinstance(part, Tensor) for part in parts):
        module.check_tensor(parts[0])
    return torch.cat(parts)


def scorer(module: CanonicalisedModel, s: Tensor, x: Tensor) -> Callable[[Any, Tensor], Tensor]:
    """Return a function from answers and targets to scores (N,) in [0, 1].

    Answers with positions are moved back by the known move s first, so that both are in the frame
    of the picture as it was.
    """
    kind = module.kind

    def agree(answer: Any, target: Tensor) -> Tensor:  # noqa: ANN401 - what the model gives
        if kind in ("logits", "probabilities"):
            right: Tensor = answer.argmax(-1) == target.to(answer.device)
            return right.double()
        if kind in MOVING and module.chart.moves_pixels:
            answer = module.moved_back(answer, affine_inverse(module.chart.matrix(s)), x)
        return _agreement(kind, answer, target, x)

    return agree


def _agreement(kind: str, answer: Tensor, target: Tensor, x: Tensor) -> Tensor:
    """Return the agreement (N,) of answers with those of the bare model."""
    if kind == "embedding":
        return embedding_errors(target, answer)["cosine"].clamp(0, 1)
    if kind == "scalar":
        spread = target.double().std(0).clamp_min(1e-12)
        off = (answer - target).double().abs() / spread
        return (1 - off.reshape(len(off), -1).mean(1)).clamp(0, 1)
    if kind in ("sequence", "ctc"):
        blank = 0 if kind == "ctc" else None
        texts = [read_sequences(rows, len(x), blank) for rows in (answer, target)]
        return torch.tensor([float(p == q) for p, q in zip(*texts, strict=True)])
    if kind == "points":
        length = torch.linalg.vector_norm((answer - target).double(), dim=-1)
        near: Tensor = length <= NEAR * max(x.shape[-2:])
        return near.double().flatten(1).mean(1)
    if kind == "boxes":
        pairs = zip(read_boxes(target, len(x)), read_boxes(answer, len(x)), strict=True)
        return torch.tensor([match_boxes(a, b)["matched"] for a, b in pairs])
    a, b = (part if part.ndim == 4 else part[:, None] for part in (target, answer))
    inside = (radii(a.shape[-2], a.shape[-1], a.device) < INNER).expand(len(a), 1, -1, -1)
    errors = map_errors(a, b, inside)
    if "agreement" in errors:
        return errors["agreement"]
    return (1 - errors["relative_error_inside"]).clamp(0, 1)
