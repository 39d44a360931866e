"""Verification of the flow's GPU kernels against torch operations, once for each shape."""

import copy
import warnings

import torch
from torch import Tensor

from symmetries.distributions.flow import ConditionalFlow
from symmetries.distributions.flow_kernels import density_of, weights_of
from symmetries.ops.compiler import error_of
from symmetries.ops.flow_cuda import suits
from symmetries.ops.flow_shape import Shape

LARGEST_ERROR = 0.05  # relative, in the norm: products may be TF32, and wrong kernels are far off
CONTEXTS, FEATURES, SPREAD = 64, 8, 0.1
MOST_SAMPLES = 2  # under one context: more samples do not change the kernel
_agreed: dict[tuple[object, ...], bool] = {}


def kernel_shape(shape: Shape, device: torch.device) -> Shape | None:
    """Return the shape, marked with the GPU kernels that are correct for it; None if none are.

    Kernels in CUDA C are faster, those in Triton support more shapes.
    """
    ways = (True, False) if suits(shape, device) else (False,)
    known = (shape._replace(cuda=cuda) for cuda in ways)
    return next((each for each in known if _agrees(each, device)), None)


def _agrees(shape: Shape, device: torch.device) -> bool:
    """Return whether the GPU kernels for flows of this shape are correct on a device.

    At the first use of a shape their value and all gradients are compared with float64 on the CPU.
    While a CUDA graph is captured, an unverified shape counts as wrong.
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
            which, instead = ("CUDA C", "Triton's") if shape.cuda else ("Triton", "torch's")
            message = f"the flow's kernels in {which} are wrong on this device; {instead} are used"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    return _agreed[key]


@torch.inference_mode(mode=False)
@torch.enable_grad()
def _largest_error(shape: Shape, device: torch.device, *, rounded: bool) -> float:
    """Return the largest relative error of the log-density of random points and its gradients.

    Args:
        shape: shape of the flow.
        device: device of the GPU kernels.
        rounded: whether the context's part is in bfloat16.
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
    """Build a flow of that shape without changing the global random state."""
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
