"""Average of any module over transformations of its input."""

from typing import Any

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_choice, check_module, check_whole, wrong_type
from symmetries._validation.placement import call_model
from symmetries.actions.images import ImageAction
from symmetries.distributions.box import SAMPLINGS, Sampling, UniformBox


class OrbitAverage(nn.Module):
    r"""Average f(x) = mean over s of g(T_s x), with T_s drawn from a box of transformations.

    Outputs of the module are averaged: its features, its logits (van der Ouderaa and van der Wilk
    2022, Appendix A), or its probabilities if it ends with a softmax (their equation 2). What
    follows after the average of features is a module behind this one.

    Args:
        module: network from images (N, C, H, W) to outputs (N, D).
        box: the distribution of transformations, with its widths trained if it has ``learn``.
        samples: number S of transformations, shared by all images of a batch.
        sampling: "random", "sobol" or "grid".
        action: action of the box's group on images; by default bilinear with background 0.

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> box = UniformBox(Affine2("rotation"), torch.pi)
        >>> features = OrbitAverage(nn.Flatten(), box, samples=8)
        >>> nn.Sequential(features, nn.Linear(64, 10))(torch.rand(5, 1, 8, 8)).shape
        torch.Size([5, 10])
    """

    def __init__(
        self,
        module: nn.Module,
        box: UniformBox,
        *,
        samples: int = 32,
        sampling: Sampling = "random",
        action: ImageAction | None = None,
    ) -> None:
        super().__init__()
        check_whole(samples, "samples")
        check_module(module, "module")
        if not isinstance(box, UniformBox):
            raise wrong_type("box", "a UniformBox", box, "try UniformBox(Affine2('rotation'), 1.0)")
        check_choice(sampling, SAMPLINGS, "sampling")
        self.module = module
        self.box = box
        self.samples = samples
        self.sampling: Sampling = sampling
        self.action = ImageAction(box.group) if action is None else action

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return averaged outputs (N, ...) of images (N, C, H, W)."""
        eta = self.box.sample(self.samples, self.sampling, generator)
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
        return weighted_mean(out.unflatten(0, (n, s)), shares)


def weighted_mean(outputs: Tensor, shares: Tensor | None = None) -> Tensor:
    """Return the mean of outputs (N, S, D) over S, or the sum with shares (S, D).

    Example:
        >>> outputs = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
        >>> weighted_mean(outputs).tolist(), weighted_mean(outputs, torch.eye(2)).tolist()
        ([[2.0, 3.0]], [[1.0, 4.0]])
    """
    return outputs.mean(1) if shares is None else (outputs * shares).sum(1)
