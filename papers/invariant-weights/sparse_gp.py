r"""A sparse Gaussian process on labels: a baseline without transformations (SGPR).

Titsias's bound on the log marginal likelihood of a regression, with M inducing points Z and one
output for each class (1 for the class, 0 for the others). All outputs share a squared-exponential
kernel, its inducing points and the noise:

.. math:: \log N(y | 0, Q + s^2 I) - \frac{1}{2 s^2} \operatorname{tr}(K - Q),
          \qquad Q = K_{xz} K_{zz}^{-1} K_{zx}.

With :math:`K_{zz} = L L^T`, :math:`A = L^{-1} K_{zx} / s` and :math:`B = I + A A^T` it needs
matrices of M x M and M x N only.
"""

import math

import torch
from torch import Tensor, nn
from torch.linalg import cholesky, solve_triangular

from symmetries._validation.checks import invalid

JITTER = 1e-6  # added to the diagonal of K_zz, as a share of the kernel's variance


class SparseGP(nn.Module):
    """Classifies images by the largest of one Gaussian process per class.

    Args:
        classes: number of classes.
        inducing: number M of inducing points, images of the training set at the start.
        steps: of Adam on kernel, noise and inducing points, all examples at every step.
        lr: of Adam at the start; falls to 0 as a cosine.
        seed: which images the inducing points start from.
    """

    def __init__(
        self, classes: int, *, inducing: int = 1000, steps: int = 400, lr: float = 0.05,
        seed: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.classes, self.inducing = classes, inducing
        self.steps, self.lr, self.seed = steps, lr, seed
        self.elbo = float("nan")  # per example and output, at the end of training
        self.history: list[float] = []

    def fit(self, images: Tensor, labels: Tensor) -> "SparseGP":
        """Learn from images (N, C, H, W) and class numbers (N,), on the device of the images."""
        if len(images) < self.inducing:
            remedy = "take fewer inducing points than examples"
            raise invalid("inducing", f"at most {len(images)}", self.inducing, remedy)
        x = images.flatten(1).double()
        spread = float((2 * x.var(0).sum()).sqrt())  # the kernel's first length
        if not 0 < spread < math.inf:
            got = f"a standard deviation of {spread:g} between them"
            raise invalid("images", "images that differ", got, "are they all the same?")
        y = nn.functional.one_hot(labels, self.classes).to(x)
        generator = torch.Generator().manual_seed(self.seed)
        first = torch.randperm(len(x), generator=generator)[: self.inducing].to(x.device)
        self.shift = y.mean(0)
        self.points = nn.Parameter(x[first].clone())
        start = torch.tensor([spread, 0.3, 0.3], dtype=x.dtype, device=x.device)
        self.free = nn.Parameter(start.log())  # length, scale of the kernel, noise
        optimiser = torch.optim.Adam(self.parameters(), self.lr)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(1, self.steps))
        for _ in range(self.steps):
            loss = -self.bound(x, y - self.shift)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            self.history.append(-float(loss.detach()))
        with torch.no_grad():
            self.elbo = float(self.bound(x, y - self.shift))
            factor, inner, a, s = self._factors(x)
            right = solve_triangular(inner, a @ (y - self.shift), upper=False) / s
            right = solve_triangular(inner.mT, right, upper=True)
            self.weights = solve_triangular(factor.mT, right, upper=True)
        return self

    def kernel(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the squared-exponential kernel (N, M) between rows of two matrices."""
        length, scale, _ = self.free.exp()
        square = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.mT
        return scale**2 * torch.exp(-0.5 * square.clamp(min=0) / length**2)

    def _factors(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return L, the Cholesky factor of B, A and s."""
        _, scale, s = self.free.exp()
        eye = torch.eye(len(self.points), dtype=x.dtype, device=x.device)
        jitter = JITTER * scale.square() * eye
        factor = cholesky(self.kernel(self.points, self.points) + jitter)
        a = solve_triangular(factor, self.kernel(self.points, x), upper=False) / s
        return factor, cholesky(eye + a @ a.mT), a, s

    def bound(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the bound per example and output for inputs (N, D) and outputs (N, classes)."""
        _, inner, a, s = self._factors(x)
        c = solve_triangular(inner, a @ y, upper=False) / s
        count, outputs = y.shape
        fit = 0.5 * (y.square().sum() / s**2 - c.square().sum())
        size = 0.5 * count * (math.log(2 * math.pi) + 2 * s.log()) + inner.diagonal().log().sum()
        scale = self.free[1].exp()
        trace = 0.5 * (count * scale**2 / s**2 - a.square().sum())
        bound: Tensor = -(fit + outputs * (size + trace)) / (count * outputs)
        return bound

    @torch.no_grad()
    def predict(self, images: Tensor, chunk: int = 2000) -> Tensor:
        """Class numbers (N,)."""
        parts = images.flatten(1).to(self.points).split(chunk)
        outputs = [self.kernel(part, self.points) @ self.weights + self.shift for part in parts]
        return torch.cat(outputs).argmax(1)
