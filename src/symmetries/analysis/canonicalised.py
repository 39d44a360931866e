"""A frozen model behind an orbit posterior: pictures are moved to the poses that it knows."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_image_shape, invalid
from symmetries.actions.colours import ColourAction
from symmetries.auditing.answers import plain
from symmetries.auditing.boxes import from_plane, to_plane
from symmetries.auditing.models import Model
from symmetries.learners.orbit_posterior import OrbitPosterior
from symmetries.learners.orbit_posterior.pose_reader import PoseReader
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.warp import warp

STAYING = ("logits", "probabilities", "embedding", "scalar", "sequence", "ctc")
MOVING = ("map", "points", "boxes")
ONE_VIEW = ("boxes", "sequence", "ctc")  # answers that have no mean


class CanonicalisedModel(nn.Module):
    r"""A frozen model that sees every picture in the most likely pose of the reference data.

    With r the most likely move that made the picture y from a pose of the reference data, the model
    sees :math:`T_r^{-1} y`, and what it answers is moved back by r where it has positions. A
    picture is moved only where log q(r | y) exceeds that of no move by more than a threshold;
    elsewhere the model sees it as it is, to the bit. Several views are weighted by q.

    Args:
        model: from pictures (N, C, H, W) like the reference to its answer; it is not trained.
        posterior: fitted to pictures in the poses that the model knows.
        kind: of the answer: "logits", "probabilities", "embedding", "scalar", "sequence" and "ctc"
            stay; "map", "points" (x, y in pixels) and "boxes" (N, K, >= 4) move along.
        threshold: nats; None never moves a picture.
        views: number of poses that the model sees of each picture.
        limits: by name, how far angles go at most, in radians.
    """

    def __init__(
        self,
        model: Model,
        posterior: OrbitPosterior,
        kind: str = "logits",
        *,
        threshold: float | None = 0.0,
        views: int = 1,
        limits: dict[str, float] | None = None,
    ) -> None:
        super().__init__()
        check_kind(kind, views)
        self.model = model if isinstance(model, nn.Module) else _Function(model)
        self.reader = PoseReader(posterior, views, limits)
        self.kind, self.threshold, self.shape = kind, threshold, posterior.shape
        self.chart, self.frame = posterior.chart, posterior.frame
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Self:
        """Stay in eval mode: nothing here is trained."""
        return super().train(False)

    def forward(self, images: Tensor) -> Any:  # noqa: ANN401 - what the model gives
        """Return the answer for pictures (N, C, H, W) like the reference, in the frame of these."""
        check_image_shape(images, self.shape)
        if self.threshold is None:
            return self._given(plain(self.model(images)))
        u, weight, ratio = self.reader(images)
        moves = ratio > self.threshold
        return self.answer(images, u, weight, moves)

    def answer(self, images: Tensor, u: Tensor, weight: Tensor, moves: Tensor) -> Any:  # noqa: ANN401
        """Return the answer where pictures are moved back by r, or left alone.

        Args:
            images: (N, C, H, W).
            u: (N, K, D) coordinates of r.
            weight: (N, K) of the views.
            moves: (N,) which pictures are moved.
        """
        seen, matrix = self.canonical(images, u, moves)
        count = u.shape[1]
        first = torch.arange(count, device=weight.device) == 0
        weight = torch.where(moves[:, None], weight, first.to(weight.dtype))
        found = plain(self.model(seen.flatten(0, 1)))
        if self.kind in MOVING:
            found = self.moved_back(found, matrix.flatten(0, 1), images)
        if count == 1:
            return self._given(found)
        parts = found.unflatten(0, (-1, count))
        by = weight.reshape(*weight.shape, *(1,) * (parts.ndim - 2))
        if self.kind in ("logits", "probabilities"):  # logarithms, both
            mean = torch.logsumexp(torch.log_softmax(parts, -1) + by.clamp_min(1e-30).log(), 1)
        else:
            mean = (parts * by).sum(1)
        return self._given(mean)

    def canonical(self, images: Tensor, u: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
        """Return pictures (N, K, C, H, W) moved by r^-1, and the matrices (N, K, 3, 3) of r.

        Pictures that are not moved stay as they are, with the matrix of the identity.
        """
        n, count = u.shape[:2]
        matrix = torch.eye(3, device=u.device).expand(n, count, 3, 3)
        seen = images[:, None].expand(n, count, *images.shape[1:])
        if self.chart.colours is not None:
            turned = ColourAction(self.chart.colours)(
                -self.chart.colour(u).flatten(0, 1), seen.flatten(0, 1).clamp(0, 1)
            )
            seen = turned.unflatten(0, (n, count))
        if self.chart.moves_pixels:
            matrix = torch.where(moves[:, None, None, None], self.chart.matrix(u), matrix)
            level = self.reader.ground + self.frame.fill
            theta, flat = matrix[..., :2, :].flatten(0, 1), (seen - level).flatten(0, 1)
            padding: Any = "constant" if self.frame.plain else "reflect"
            seen = warp(flat, theta, interpolation="bicubic", padding=padding)
            seen = within_range(seen.unflatten(0, (n, count)) + level, images[:, None], level)
        return torch.where(moves[:, None, None, None, None], seen, images[:, None]), matrix

    def _given(self, answer: Any) -> Any:  # noqa: ANN401
        """Return the answer as the model gives it, with logarithms of probabilities undone."""
        return answer.exp() if self.kind == "probabilities" else answer

    def check_tensor(self, answer: Any) -> None:  # noqa: ANN401
        """Raise an error unless an answer is one tensor, which files can return."""
        if not isinstance(answer, Tensor):
            remedy = "return one tensor: boxes (N, K, >= 4) of x1, y1, x2, y2 in pixels"
            raise invalid("model", f"{self.kind} as one tensor", type(answer).__name__, remedy)

    def moved_back(self, answer: Any, matrix: Tensor, images: Tensor) -> Tensor:  # noqa: ANN401
        """An answer with positions, moved by matrices (M, 3, 3) into the frame of the pictures."""
        self.check_tensor(answer)
        size = (images.shape[-2], images.shape[-1])
        if self.kind == "map":
            flat = answer if answer.ndim == 4 else answer[:, None]
            back = warp(flat, affine_inverse(matrix)[:, :2], padding="border")
            still = (matrix == torch.eye(3, device=matrix.device)).all(-1).all(-1)
            back = torch.where(still[:, None, None, None], flat, back)
            return back if answer.ndim == 4 else back[:, 0]
        if self.kind == "points":
            rows = answer.reshape(len(answer), -1, 2)
            found = from_plane(_mapped(matrix, to_plane(rows + 0.5, size)), size) - 0.5
            return found.reshape(answer.shape)
        corners = answer[..., [0, 1, 2, 1, 2, 3, 0, 3]].reshape(len(answer), -1, 2)
        around = from_plane(_mapped(matrix, to_plane(corners, size)), size)
        around = around.reshape(len(answer), -1, 4, 2)
        boxes = torch.cat((around.amin(2), around.amax(2)), -1)
        some = answer[..., :4].abs().sum(-1, keepdim=True) > 0  # rows of zeros are no boxes
        return torch.cat((torch.where(some, boxes, answer[..., :4]), answer[..., 4:]), -1)


def within_range(moved: Tensor, images: Tensor, fill: Tensor) -> Tensor:
    """Moved pictures (..., C, H, W) without what interpolation adds beyond the values of each.

    Args:
        moved: whose axes before the last three those of the pictures can be broadcast to.
        images: before they were moved, of any range.
        fill: values (C, 1, 1) of the background.
    """
    axes = (-3, -2, -1)
    low = torch.minimum(images, fill).amin(axes, keepdim=True)
    high = torch.maximum(images, fill).amax(axes, keepdim=True)
    return torch.minimum(torch.maximum(moved, low), high)


class _Function(nn.Module):
    """A plain function as a module."""

    def __init__(self, function: Model) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: Tensor) -> Any:  # noqa: ANN401 - what the function gives
        """Return the function's value."""
        return self.function(images)


def _mapped(matrix: Tensor, points: Tensor) -> Tensor:
    """Return points (M, P, 2) of the plane, each row moved by its matrix (M, 3, 3)."""
    block, shift = matrix[:, :2, :2].to(points.dtype), matrix[:, None, :2, 2].to(points.dtype)
    return points @ block.transpose(-1, -2) + shift


def check_kind(kind: str, views: int) -> None:
    """Raise an error for an answer that cannot be moved back, or that has no mean over views."""
    if kind not in STAYING + MOVING:
        remedy = f"wrap a model whose output is one of {', '.join(STAYING + MOVING)}"
        raise invalid("output", "an answer that can be moved back", repr(kind), remedy)
    if views > 1 and kind in ONE_VIEW:
        remedy = "leave out views: these answers have no mean"
        raise invalid("views", f"1 for {kind}", views, remedy)
