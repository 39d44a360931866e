"""Where fewer bits are enough and where they are not: each operation at four precisions.

Relative errors against float64 of the same inputs and weights: in float32, with products in TF32,
with products in bfloat16 (autocast), and with everything in bfloat16, inputs too. Whether a learner
bears the error is another question: ``precision.py`` asks it.

    python benchmarks/rounding.py
"""

import argparse
import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.actions.resample import warp
from symmetries.auditing import integrated_gradients, largest_singular_value
from symmetries.distributions.flow import ConditionalFlow
from symmetries.groups import Cyclic
from symmetries.groups.affine import affine_exp
from symmetries.nn.gconv import GroupConv2d
from symmetries.nn.perceptron import MLP
from symmetries.nn.variational import VariationalLinear

sys.path.insert(0, str(Path(__file__).parent))
from common import record

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Work = Callable[..., Tensor]
Case = tuple[str, nn.Module, Work, tuple[Tensor, ...]]


@contextmanager
def tf32() -> Iterator[None]:
    """Products in TF32, convolutions too."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


WAYS: dict[str, tuple[torch.dtype, Callable[[], AbstractContextManager[Any]]]] = {
    "float32": (torch.float32, nullcontext),
    "TF32 products": (torch.float32, tf32),
    "bfloat16 products": (torch.float32, lambda: torch.autocast(DEVICE, torch.bfloat16)),
    "bfloat16": (torch.bfloat16, nullcontext),
}


def classifier() -> nn.Module:
    """A perceptron."""
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(nn.Flatten(), *layers)


def cases() -> Iterator[Case]:
    """Operation, module, work, inputs."""
    images, n = torch.rand(256, 1, 28, 28), 256
    eta = 0.4 * torch.randn(n, 6)
    nothing = nn.Identity()
    yield (
        "exponential of affine maps",
        nothing,
        lambda _, e: affine_exp(e),
        (eta,),
    )
    yield (
        "warp, bilinear",
        nothing,
        lambda _, x, e: warp(x, affine_exp(e)[:, :2].to(x.dtype)),
        (images, eta),
    )
    yield (
        "perceptron with norms, 5 layers",
        MLP(784, (512, 512, 512, 512, 64)),
        lambda net, x: net(x.flatten(1)),
        (images,),
    )
    flow = ConditionalFlow((1.0,) * 5, 64, layers=6, hidden=128, base=(64,))
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    points, context = 0.3 * torch.randn(n, 5), torch.randn(n, 64)
    yield (
        "spline flow, log-density",
        flow,
        lambda f, x, c: f.log_prob(x, c),
        (points, context),
    )
    features = torch.randn(n, 512)
    yield (
        "full covariance, variances and KL",
        VariationalLinear(512, 10, scale=0.3),
        lambda layer, x: torch.cat((layer(x)[1].flatten(), layer.kl().flatten())),
        (features,),
    )
    labels = torch.arange(n) % 10
    yield (
        "integrated gradients, 50 steps",
        classifier(),
        lambda net, x: integrated_gradients(net, x, labels.to(x.device), steps=50),
        (images,),
    )
    yield (
        "largest singular value",
        classifier(),
        lambda net, x: largest_singular_value(net, x),
        (images[:32],),
    )
    yield (
        "strict group convolution, outputs",
        GroupConv2d(8, 8, 3, group=Cyclic(4), padding=1),
        lambda layer, x: layer(x),
        (torch.randn(16, 32, 16, 16),),
    )


def error(ours: Tensor, exact: Tensor) -> float:
    """Relative error."""
    return float((ours.double() - exact).norm() / exact.norm())


def errors(case: Case) -> dict[str, Any]:
    """The row of an operation."""
    what, module, work, inputs = case
    torch.manual_seed(0)
    module, exact_inputs = module.to(DEVICE).eval(), [x.to(DEVICE).double() for x in inputs]
    exact = work(copy.deepcopy(module).double(), *exact_inputs).detach()
    row: dict[str, Any] = {"operation": what}
    for name, (dtype, rounded) in WAYS.items():
        own = copy.deepcopy(module).to(dtype)
        try:
            with rounded():
                row[name] = error(work(own, *(x.to(dtype) for x in exact_inputs)).detach(), exact)
        except (RuntimeError, TypeError, ValueError) as refused:
            row[name] = "refused"
            print(what, name, str(refused).partition("\n")[0][:200])
    return row


def main() -> None:
    """Measure and record; on a GPU, as products of 16 bits end in a crash on some processors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--anyhow", action="store_true", help="run on a CPU too")
    if DEVICE == "cpu" and not parser.parse_args().anyhow:
        print("needs a GPU, or --anyhow")
        return
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    rows = []
    for case in cases():
        rows.append(errors(case))
        print(rows[-1], flush=True)
    record(f"rounding-{DEVICE}", rows)


if __name__ == "__main__":
    main()
