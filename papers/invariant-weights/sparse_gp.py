r"""A sparse Gaussian process on labels: a baseline without transformations (SGPR).

Titsias's bound on the log marginal likelihood of a regression, with M inducing points Z and one
output for each class (1 for the class, 0 for the others), all with the same squared-exponential
kernel form:

.. math:: \log N(y | 0, Q + s^2 I) - \frac{1}{2 s^2} \operatorname{tr}(K - Q),
          \qquad Q = K_{xz} K_{zz}^{-1} K_{zx}.

It is computed by GPyTorch, an extra: ``pip install 'symmetries[gp]'``.
"""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.training import TrainConfig, train


class SparseGP:
    """Classifies images by the largest of one Gaussian process per class.

    Args:
        classes: number of classes.
        inducing: number M of inducing points, images of the training set at the start.
        steps: of Adam on kernel, noise and inducing points.
        lr: of Adam.
        dtype: of all computations; single precision needs a larger noise to stay stable.
        seed: which images the inducing points start from.

    """

    def __init__(
        self,
        classes: int,
        *,
        inducing: int = 500,
        steps: int = 100,
        lr: float = 0.1,
        dtype: torch.dtype = torch.float64,
        seed: int = 0,
    ) -> None:
        self.classes = classes
        self.inducing = inducing
        self.steps = steps
        self.lr = lr
        self.dtype = dtype
        self.seed = seed
        self.elbo = float("nan")  # per example and output

    def fit(
        self,
        images: Tensor,
        labels: Tensor,
        *,
        out: Path | str | None = None,
        resume: bool = False,
        devices: int = 1,
        nodes: int = 1,
        progress: bool = False,
    ) -> "SparseGP":
        """Learn from images (N, C, H, W) and class numbers (N,), all of them at every step.

        Args:
            images: on the device to compute on.
            labels: int64.
            out: folder for checkpoints and metrics.
            resume: go on from the checkpoint in ``out``.
            devices: processes of a node; each computes the same, as there are no batches to share.
            nodes: number of nodes.
            progress: show a bar.
        """
        gpytorch = _gpytorch()
        if len(images) < self.inducing:
            remedy = "take fewer inducing points than examples"
            raise invalid("inducing", f"at most {len(images)}", self.inducing, remedy)
        x = images.flatten(1).to(self.dtype)
        spread = float((2 * x.var(0).sum()).sqrt())  # the kernel's first length
        if not 0 < spread < math.inf:
            got = f"a standard deviation of {spread:g} between them"
            raise invalid("images", "images that differ", got, "are they all the same?")
        y = torch.zeros(self.classes, len(x), dtype=x.dtype, device=x.device)
        y.scatter_(0, labels[None], 1.0)
        self._shift = y.mean(1, keepdim=True)
        generator = torch.Generator().manual_seed(self.seed)
        start = x[torch.randperm(len(x), generator=generator)[: self.inducing].to(x.device)]
        self._likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=self._batch)
        self._model = _exact_gp(x, y - self._shift, self._likelihood, start, spread)
        for part in (self._model, self._likelihood):
            part.to(x.device, x.dtype).train()
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(self._likelihood, self._model)

        def loss(model: Any, batch: object, step: object) -> dict[str, Tensor]:  # noqa: ANN401
            return {"loss": -objective(model(x), y - self._shift).mean()}

        config = TrainConfig(
            steps=self.steps,
            batch_size=devices * nodes,
            lr=self.lr,
            seed=self.seed,
            out=None if out is None else Path(out),
            resume=resume,
            device=str(x.device),
            progress=progress,
        ).replace(
            schedule="constant",
            log_every=1,
            devices=devices,
            nodes=nodes,
            precision="64-true" if self.dtype == torch.float64 else "32-true",
            graph="off",
        )
        nothing = torch.zeros(devices * nodes, 1, dtype=x.dtype)  # the loss knows its data
        history = train(self._model, loss, (nothing,), config)
        self.elbo = -history["loss"][-1]
        return self

    @property
    def _batch(self) -> torch.Size:
        return torch.Size([self.classes])

    @torch.no_grad()
    def predict(self, images: Tensor, chunk: int = 2000) -> Tensor:
        """Class numbers (N,)."""
        self._model.eval()
        parts = []
        for part in images.flatten(1).to(self.dtype).split(chunk):
            outputs = self._model(part).mean + self._shift
            parts.append(outputs.argmax(0))
        return torch.cat(parts)


def _gpytorch() -> Any:  # noqa: ANN401 - a module
    try:
        import gpytorch
    except ImportError as error:
        message = "a sparse Gaussian process needs GPyTorch: pip install 'symmetries[gp]'"
        raise ImportError(message) from error
    return gpytorch


def _exact_gp(x: Tensor, y: Tensor, likelihood: Any, start: Tensor, spread: float) -> Any:  # noqa: ANN401
    """GPyTorch's model: zero mean, scaled squared exponential, inducing points."""
    gpytorch, batch = _gpytorch(), y.shape[:1]

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ZeroMean(batch_shape=batch)
            kernel = gpytorch.kernels.RBFKernel(batch_shape=batch)
            kernel.lengthscale = spread
            base = gpytorch.kernels.ScaleKernel(kernel, batch_shape=batch)
            self.kernel = gpytorch.kernels.InducingPointKernel(
                base, inducing_points=start.clone(), likelihood=likelihood
            )

        def forward(self, inputs: Tensor) -> Any:  # noqa: ANN401
            return gpytorch.distributions.MultivariateNormal(self.mean(inputs), self.kernel(inputs))

    return Model()
