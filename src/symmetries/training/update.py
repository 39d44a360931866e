"""One update of the weights: loss, gradient, clipping, and optimiser step."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from symmetries._validation.checks import invalid
from symmetries.ops.adam import FusedAdam, FusedAdamW, clipped_parameters
from symmetries.ops.full_moments import FactorGradient
from symmetries.ops.triangular_adam import TriangularAdam
from symmetries.training.batches import Batch, Batches
from symmetries.training.config import TrainConfig
from symmetries.training.stacked_rng import DropoutByRows
from symmetries.training.step import Step

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Loss = Callable[[nn.Module, Batch, Step], Mapping[str, Tensor]]
Metrics = dict[str, Tensor]

# Errors of torch functions; their subclasses, for memory and devices, explain themselves.
TORCH_ERRORS = (RuntimeError, IndexError, NotImplementedError)
RESERVED = frozenset({"step", "seconds", "lr", "skipped"})


class LossError(RuntimeError):
    """The loss failed on a batch; the message has the batch's shapes and torch's error."""


class Objective(nn.Module):
    """Model and loss as one module, so that Fabric wraps the whole computation.

    A loss may then call any method of the model, several times, and autocast and DDP still cover
    it. Numbers that it returns besides the loss are detached here.
    """

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self._checked = False

    def forward(self, batch: Batch, step: Step) -> tuple[Tensor, Metrics]:
        """Return the loss to minimise, and all metrics."""
        try:
            if step.world == 1:
                terms = self.loss(self.model, batch, step)
            else:
                with DropoutByRows(step.rank, step.world):
                    terms = self.loss(self.model, batch, step)
        except TORCH_ERRORS as error:
            if type(error) not in TORCH_ERRORS or not step.host:  # the trial capture handles it
                raise
            raise _refused(batch, error) from error
        if not self._checked:
            _check_terms(terms)
            self._checked = True
        return terms["loss"], {name: value.detach() for name, value in terms.items()}


def _refused(batch: Batch, error: Exception) -> LossError:
    shapes = ", ".join(f"{tuple(part.shape)} {part.dtype}" for part in batch)
    got = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    remedy = f"a batch is ({shapes}): check its shapes, dtypes and class numbers"
    return LossError(str(invalid("loss", "a function that takes the batches", got, remedy)))


def _check_terms(terms: object) -> None:
    if not isinstance(terms, Mapping) or "loss" not in terms:
        got = f"keys {list(terms)}" if isinstance(terms, Mapping) else type(terms).__name__
        remedy = "return {'loss': loss, ...}"
        raise invalid("what loss(...) returns", "a mapping with 'loss'", got, remedy)
    for name, value in terms.items():
        if not isinstance(value, Tensor) or value.ndim != 0:
            is_tensor = isinstance(value, Tensor)
            got = f"shape {tuple(value.shape)}" if is_tensor else type(value).__name__
            raise invalid(f"loss term {name!r}", "a tensor without axes", got, "take its mean")
    if RESERVED & set(terms):
        remedy = "rename the terms"
        raise invalid("loss terms", f"names other than {sorted(RESERVED)}", list(terms), remedy)
    if not terms["loss"].requires_grad:
        remedy = "check whether the loss is detached or under no_grad"
        got = "a loss that no parameter affects"
        raise invalid("loss", "a tensor with a gradient", got, remedy)


class SkipNonFinite:
    """Skips and counts steps whose loss or gradient is not finite.

    Args:
        fabric: spreads the decision to all processes.
        model: model whose buffers (running means) a skipped step must not change.
        optimizer: a fused optimiser.
        skipped: number of skipped steps before a resumption.
    """

    def __init__(
        self, fabric: "Fabric", model: nn.Module, optimizer: Optimizer, skipped: int = 0
    ) -> None:
        if not all(group.get("fused") for group in optimizer.param_groups):
            remedy = "use float parameters on the CPU or on CUDA"
            raise invalid("skip_bad", "a fused optimiser", "one that is not fused", remedy)
        self.fabric = fabric
        self.buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        self.found = torch.zeros((), device=fabric.device)  # 1 while the step is to be skipped
        self.count = torch.full((), float(skipped), device=fabric.device)
        self._before: list[Tensor] = []
        optimizer.found_inf = self.found  # type: ignore[attr-defined]
        if isinstance(optimizer, SGD):
            _start_momentum(optimizer)

    def begin(self) -> None:
        """Store the buffers before a step."""
        self._before = [buffer.clone() for buffer in self.buffers]

    def judge(self, loss: Tensor, gradients: list[Tensor]) -> None:
        """Decide whether to skip the step, before the optimiser updates."""
        norm = torch.nn.utils.get_total_norm(gradients)
        bad = ~(torch.isfinite(loss) & torch.isfinite(norm))
        self.found.copy_(bad)
        if self.fabric.world_size > 1:
            every = self.fabric.all_reduce(self.found, reduce_op="max")
            self.found.copy_(every)  # type: ignore[arg-type]
        self.count.add_(self.found)

    def end(self) -> None:
        """Restore the buffers after a skipped step."""
        for buffer, before in zip(self.buffers, self._before, strict=True):
            buffer.copy_(torch.where(self.found > 0, before.to(buffer), buffer))


def _start_momentum(optimizer: SGD) -> None:
    """Start momentum at 0, because skipping the first step would leave it undefined."""
    for group in optimizer.param_groups:
        for parameter in group["params"] if group["momentum"] else ():
            optimizer.state[parameter].setdefault("momentum_buffer", torch.zeros_like(parameter))


class Update:
    """Performs one step of the optimiser from the inputs of that step.

    Args:
        fabric: devices and precision.
        objective: an :class:`Objective` on its device.
        optimizer: optimiser of its parameters.
        batches: turns inputs into a batch.
        step: step passed to the loss.
        config: configuration of the run: largest norm of the gradient, precision.
        bad: skips non-finite steps, if enabled.
        several: whether parameters are stacked over several models, each clipped alone.
    """

    def __init__(
        self,
        fabric: "Fabric",
        objective: nn.Module,
        optimizer: Optimizer,
        batches: Batches,
        step: Step,
        config: TrainConfig,
        bad: SkipNonFinite | None = None,
        several: bool = False,
    ) -> None:
        self.fabric = fabric
        self.objective = objective
        self.optimizer = optimizer
        self.batches = batches
        self.step = step
        self.clip = config.optimiser.clip
        if isinstance(optimizer, FusedAdam | FusedAdamW) and not several:
            self.clip, optimizer.largest = None, config.optimiser.clip  # its GPU kernels also clip
        self.bad = bad
        self.several = several
        # Autocast rounds where it helps; a model that is itself rounded needs rounded inputs.
        precision = config.hardware.precision
        self.plain = precision == "32-true"
        self.converts = precision != "32-true" and precision.endswith("-true")
        self.parameters = [p for p in objective.parameters() if p.requires_grad]
        self.clipped = clipped_parameters(optimizer)

    def clear_gradients(self) -> None:
        """Clear all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def gradient(self, inputs: Batch) -> Metrics:
        """Compute the gradient without changing weights."""
        self.clear_gradients()
        precision = self.fabric.strategy.precision
        batch = self.batches.batch(inputs)
        loss: Tensor
        metrics: Metrics
        with self._products() as products:
            with precision.forward_context():
                batch = precision.convert_input(batch) if self.converts else batch
                loss, metrics = self.objective(batch, self.step)
            for made in products:
                made.clear()  # products of gradients that the loss itself computed
            self.fabric.backward(loss)
        return metrics

    def _products(self) -> AbstractContextManager[list[list[FactorGradient]]]:
        """Let triangular gradients stay products, if only the optimiser reads them."""
        alone = self.clip is None and self.bad is None and self.fabric.world_size == 1
        if alone and self.plain and isinstance(self.optimizer, TriangularAdam):
            return self.optimizer.products()
        return nullcontext([])

    def __call__(self, inputs: Batch) -> Metrics:
        """Perform the step and return its metrics, on the device."""
        if self.bad is None:
            metrics = self.gradient(inputs)
            self._move()
            return metrics
        self.bad.begin()
        metrics = self.gradient(inputs)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        self.bad.judge(metrics["loss"], gradients)
        self._move()
        self.bad.end()
        return metrics | {"skipped": self.bad.count}

    def _move(self) -> None:
        if self.clip is not None and self.clipped:
            clip = clip_each if self.several else torch.nn.utils.clip_grad_norm_
            clip(self.clipped, self.clip)
        self.fabric.strategy.optimizer_step(self.optimizer)


def clip_each(parameters: Sequence[Tensor], largest: float) -> None:
    """Clip the gradients of models stacked along the first axis, each by its own norm.

    Example:
        >>> stacked = torch.zeros(2, 1, requires_grad=True)
        >>> stacked.grad = torch.tensor([[0.5], [4.0]])
        >>> clip_each([stacked], 1.0)
        >>> [round(g, 3) for g in stacked.grad.flatten().tolist()]
        [0.5, 1.0]
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return
    norms = torch.stack([torch.linalg.vector_norm(g.reshape(len(g), -1), dim=1) for g in gradients])
    total = torch.linalg.vector_norm(norms, dim=0)
    factor = (largest / (total + 1e-6)).clamp_max(1.0)
    for gradient in gradients:
        gradient.mul_(factor.reshape(-1, *[1] * (gradient.ndim - 1)))
