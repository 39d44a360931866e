"""Average of any module over transformations of its input."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_choice, check_module, check_whole, wrong_type
from symmetries._validation.placement import call_model
from symmetries.actions.images import ImageAction
from symmetries.distributions.box import SAMPLINGS, Sampling, UniformBox

Space = Literal["features", "logits", "probabilities"]
SPACES = ("features", "logits", "probabilities")


class OrbitAverage(nn.Module):
    r"""Average f(x) = mean over s of g(T_s x), with T_s drawn from a box of transformations.

    The average is taken over the "features" of the module, before the head; over the "logits",
    after it (van der Ouderaa and van der Wilk 2022, Appendix A); or over the "probabilities", after
    a softmax (their equation 2). The three are equal only if the head is linear (features and
    logits) or nothing changes along the orbit.

    Args:
        module: network from images (N, C, H, W) to features (N, D).
        box: the distribution of transformations, with its widths trained if it has ``learn``.
        head: network from features to logits, or None.
        space: "features", "logits" or "probabilities".
        samples: number S of transformations, shared by all images of a batch.
        sampling: "random", "sobol" or "grid" in training.
        test_sampling: the sampling in eval mode; None is the same as in training.
        action: action of the box's group on images; by default bilinear with background 0.

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> box = UniformBox(Affine2("rotation"), torch.pi)
        >>> model = OrbitAverage(nn.Flatten(), box, nn.Linear(64, 10), samples=8)
        >>> model(torch.rand(5, 1, 8, 8)).shape
        torch.Size([5, 10])
    """

    def __init__(
        self,
        module: nn.Module,
        box: UniformBox,
        head: nn.Module | None = None,
        *,
        space: Space = "logits",
        samples: int = 32,
        sampling: Sampling = "random",
        test_sampling: Sampling | None = None,
        action: ImageAction | None = None,
    ) -> None:
        super().__init__()
        check_choice(space, SPACES, "space")
        check_whole(samples, "samples")
        check_module(module, "module")
        if not isinstance(box, UniformBox):
            raise wrong_type("box", "a UniformBox", box, "try UniformBox(Affine2('rotation'), 1.0)")
        check_choice(sampling, SAMPLINGS, "sampling")
        self.module = module
        self.box = box
        self.head = head
        self.space = space
        self.samples = samples
        self.sampling: Sampling = sampling
        self.test_sampling: Sampling = test_sampling or sampling
        self.action = ImageAction(box.group) if action is None else action

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return averaged outputs (N, ...) of images (N, C, H, W)."""
        method = self.sampling if self.training else self.test_sampling
        eta = self.box.sample(self.samples, method, generator)
        return self.average(images, self.box.group.exp(eta))

    def average(self, images: Tensor, element: Any, shares: Tensor | None = None) -> Tensor:  # noqa: ANN401 - elements differ by group
        """Return outputs averaged over given elements.

        Args:
            images: (N, C, H, W).
            element: with leading shape (S,) or (N, S).
            shares: how much each element counts in each output (S, D); None is the mean.
        """
        views = self.action.orbit(element, images)
        n, s = views.shape[:2]
        out: Tensor = call_model(self.module, views.flatten(0, 1), "images")
        if self.space != "features":
            out = out if self.head is None else call_model(self.head, out, "features")
            out = out.softmax(-1) if self.space == "probabilities" else out
        mean = weighted_mean(out.unflatten(0, (n, s)), shares)
        if self.space == "features" and self.head is not None:
            mean = call_model(self.head, mean, "features")
        return mean


def weighted_mean(outputs: Tensor, shares: Tensor | None = None) -> Tensor:
    """Return the mean of outputs (N, S, D) over S, or the sum with shares (S, D).

    Example:
        >>> outputs = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
        >>> weighted_mean(outputs).tolist(), weighted_mean(outputs, torch.eye(2)).tolist()
        ([[2.0, 3.0]], [[1.0, 4.0]])
    """
    return outputs.mean(1) if shares is None else (outputs * shares).sum(1)
