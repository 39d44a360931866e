"""Whether the flow's kernels do what torch's operations do: tried once for each shape."""

import copy
import warnings

import torch
from torch import Tensor

from symmetries.distributions.flow import ConditionalFlow
from symmetries.distributions.flow_kernels import density_of, weights_of
from symmetries.ops.cuda.compiler import error_of
from symmetries.ops.triton.flow_shape import Shape

LARGEST_ERROR = 0.05  # in the norm: products may be TF32; a kernel that is wrong is so by far
CONTEXTS, FEATURES, SPREAD = 64, 8, 0.1
MOST_SAMPLES = 2  # under one context: more are no other case
_agreed: dict[tuple[object, ...], bool] = {}


def kernel_shape(shape: Shape, device: torch.device) -> Shape | None:
    """The shape if the kernels are right for it on a device, else None."""
    return shape if _agrees(shape, device) else None


def _agrees(shape: Shape, device: torch.device) -> bool:
    """Whether kernels for flows of this shape are right on a device.

    They are compared, in value and in all gradients, with float64 on the CPU at the first use of a
    shape; while a CUDA graph is made, an unknown shape counts as wrong.
    """
    shape = shape._replace(samples=min(shape.samples, MOST_SAMPLES))
    precision = torch.get_float32_matmul_precision()
    key = (shape, device, precision)
    if key not in _agreed:
        if device.type == "cuda" and (
            torch.cuda.is_current_stream_capturing() or torch.cuda.get_sync_debug_mode()
        ):
            return False
        rounded = device.type == "cuda" and precision == "medium"
        error = error_of(lambda: _largest_error(shape, device, rounded=rounded))
        _agreed[key] = error < LARGEST_ERROR
        if not _agreed[key]:
            message = "the flow's fused form is wrong on this device; torch's operations are used"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    return _agreed[key]


@torch.inference_mode(mode=False)
@torch.enable_grad()
def _largest_error(shape: Shape, device: torch.device, *, rounded: bool) -> float:
    """Of the log-density of some random points under a random flow, and of its gradients.

    Args:
        shape: of the flow.
        device: of the kernels.
        rounded: whether what the context gives is in bfloat16.
    """
    source = torch.Generator().manual_seed(0)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=source, dtype=torch.float32, device="cpu")

    slow = _flow(shape)
    for parameter in slow.parameters():
        inputs = parameter.shape[-1] if parameter.ndim > 1 else 1
        parameter.data += SPREAD * min(1.0, (16 / inputs) ** 0.5) * normal(*parameter.shape)
    fast = copy.deepcopy(slow).to(device)
    slow = slow.double()
    n, mask = CONTEXTS * shape.samples, None
    if shape.dropout:
        drawn = torch.rand(n, shape.layers * shape.hidden, generator=source, device="cpu")
        mask = (drawn >= shape.dropout).to(torch.uint8)
    projected = normal(CONTEXTS, shape.layers * shape.hidden)
    projected = projected.to(torch.bfloat16) if rounded else projected
    given = (0.6 * normal(n, shape.dim), projected, 0.1 * normal(CONTEXTS, 2 * shape.dim))
    grad = normal(n)

    ours = [t.to(device).requires_grad_() for t in given]
    out = density_of(fast, shape, None if mask is None else mask.to(device), *ours)
    wanted = [*ours, fast.project.bias, *weights_of(fast)]
    found = [out, *torch.autograd.grad(out, wanted, grad.to(device))]

    exact = [t.double().requires_grad_() for t in given]
    kept = None if mask is None else mask.double() / (1 - shape.dropout)
    parts = slow.parts_of(exact[1], shape.samples)
    value = slow.density(kept, exact[0], parts, exact[2])
    wanted = [*exact, slow.project.bias, *weights_of(slow)]
    truth = [value, *torch.autograd.grad(value, wanted, grad.double())]
    errors = [(a.cpu() - b).norm() / b.norm() for a, b in zip(found, truth, strict=True)]
    largest = float(torch.stack(errors).detach().max())
    return largest if largest == largest else float("inf")


def _flow(shape: Shape) -> ConditionalFlow:
    """A new flow of that shape; the global random numbers stay as they are."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(0)
        return ConditionalFlow(
            (1.0,) * shape.dim,
            FEATURES,
            layers=shape.layers,
            bins=shape.bins,
            hidden=shape.hidden,
            base=(),
            dropout=shape.dropout,
        )
