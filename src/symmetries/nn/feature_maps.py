r"""Shallow networks averaged over transformations: random Fourier features, and ReLU.

.. math:: \bar\phi(x) = \frac1S \sum_s a\,\varphi(W_1 T_s x + b)

Logits that are linear in features can be averaged over transformations before the last layer,
because the mean of W2 phi is W2 times the mean of phi: the last layer has B rows, not S B.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_choice, check_number, check_whole
from symmetries.nn.invariant_linear import InvariantLinear, Side
from symmetries.ops.orbit_mean import Function, orbit_mean

Kind = Literal["fourier", "relu"]
KINDS = ("fourier", "relu")


class InvariantFeatures(nn.Module):
    r"""Hidden layer with transformed filters, averaged over the transformations.

    "fourier": W1 ~ N(0, sigma^2) and b ~ U(0, 2 pi) are fixed and phi = sqrt(2 / D) cos, random
    Fourier features (Rahimi and Recht 2007), whose inner product approaches the kernel function
    exp(-sigma^2 |x - y|^2 / 2). All runs share them. "relu": phi = max(0, .), and W1 and b are
    learned, from the same initial values for all runs.

    Args:
        shape: (C, H, W) of the images.
        features: number D of hidden units.
        kind: "fourier" or "relu".
        sigma: standard deviation of the random frequencies.
        amplitude: factor a of all features; with the prior variance of the last layer it
            determines the size of the logits before any data is seen.
        runs: number of models computed as one.
        seed: random seed of the weights.
        side: see :class:`InvariantLinear`.
        blur: see :class:`InvariantLinear`.

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> phi = InvariantFeatures((1, 8, 8), 32)
        >>> T = Affine2("rotation").exp(torch.linspace(-1, 1, 4)[:, None])
        >>> phi(torch.rand(5, 1, 8, 8), T[None]).shape
        torch.Size([1, 5, 32])
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        features: int = 1024,
        *,
        kind: Kind = "fourier",
        sigma: float = 0.3,
        amplitude: float = 1.0,
        runs: int = 1,
        seed: int = 0,
        side: Side = "auto",
        blur: float = 0.0,
    ) -> None:
        super().__init__()
        check_choice(kind, KINDS, "kind")
        check_whole(features, "features")
        check_number(sigma, "sigma", least=0)
        check_number(amplitude, "amplitude")
        self.kind = kind
        self.features = features
        fourier = kind == "fourier"
        self.amplitude = amplitude * (math.sqrt(2 / features) if fourier else 1.0)
        generator = torch.Generator().manual_seed(seed)
        self.layer = InvariantLinear(
            shape, features, runs=runs, shared=fourier, side=side, blur=blur, generator=generator
        )
        if fourier and self.layer.bias is not None:
            self.layer.requires_grad_(False)
            self.layer.weight.normal_(0, sigma, generator=generator)
            self.layer.bias.uniform_(0, 2 * math.pi, generator=generator)

    def forward(self, images: Tensor, transformation: Tensor) -> Tensor:
        """Return averaged features (R, B, D).

        Args:
            images: (B, C, H, W) or (R, B, C, H, W).
            transformation: (R, S, 3, 3).
        """
        responses = self.layer.responses(images, transformation)
        function: Function = "cos" if self.kind == "fourier" else "relu"
        return orbit_mean(responses, self.layer.bias, function, self.amplitude)
