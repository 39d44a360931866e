"""Kernels behind layers and optimisers on a GPU: time, floor, and torch's operations for the same.

"ours" is what a layer does by default, "torch" the same with ``SYMMETRIES_KERNELS=0``, both
captured as CUDA graphs that go through enough copies of inputs, gradients and results to leave the
cache behind. The floor is the larger of two: every input, output and gradient moved once, at the
bandwidth of a large copy, and the products at the rate of a large product in TF32 (bfloat16 where
the layer rounds to it), both measured in the same run. Three sizes each where sizes vary: one that
a launch dominates, that of the papers, and a large one. ``kernels_cuda.py`` has warps and matrices.

    python benchmarks/kernels_layers.py [--most-seconds 40]
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from symmetries.distributions.flow import ConditionalFlow
from symmetries.groups import Cyclic
from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_weights import log_likelihood
from symmetries.nn.gconv import GroupConv2d, RelaxedGroupConv2d
from symmetries.nn.gpool import FieldBatchNorm2d
from symmetries.nn.invariant_model import shallow_model
from symmetries.nn.variational import VariationalLinear
from symmetries.ops.adam import FusedAdamW
from symmetries.ops.affine_exp import affine_exp
from symmetries.ops.orbit_mean import orbit_mean
from symmetries.ops.position_conv import Geometry, position_conv2d
from symmetries.ops.rational_quadratic import circular_spline
from symmetries.ops.resample_rows import resample_rows
from symmetries.ops.triangular_adam import TriangularAdam

sys.path.insert(0, str(Path(__file__).parent))
from common import record
from kernels_cuda import DEVICE, ENOUGH, GPU, bandwidth, graph_seconds, without_kernels

Made = tuple[
    Callable[[], Any], list[Tensor], list[Tensor]
]  # function, inputs, those with gradients
Case = tuple[str, Callable[[], Made], float]  # name, one copy of the work, multiplications


def normal(*shape: int) -> Tensor:
    """A parameter-like tensor."""
    return (0.3 * torch.randn(*shape, device=DEVICE)).requires_grad_()


def averages(batch: int, samples: int, units: int) -> Made:
    """The mean over transformations of the units of an invariant layer."""
    inputs = [normal(1, samples, batch, units), normal(1, units)]
    return lambda: orbit_mean(inputs[0], inputs[1], "relu"), inputs, inputs


def rows(batch: int, samples: int) -> Made:
    """Images as rows of a table, resampled by shared maps."""
    theta = affine_exp(0.3 * torch.randn(1, samples, 6, device=DEVICE))[:, :, :2].contiguous()
    inputs = [normal(1, 784, batch).detach(), theta.requires_grad_()]
    return lambda: resample_rows(*inputs, 28, 28, 1, transpose=False), inputs, inputs[1:]


def covariance(batch: int, features: int) -> Made:
    """Means, variances and KL of ten outputs with full covariances."""
    layer = VariationalLinear(features, 10, bias=False, scale=0.3).to(DEVICE)
    phi = normal(1, batch, features)
    learned = [phi, *layer.parameters()]
    return lambda: layer.moments_and_kl(phi), learned, learned


def norm(images: int) -> Made:
    """Batch norm of 16 fields on four rotations."""
    layer, x = FieldBatchNorm2d(16, Cyclic(4)).to(DEVICE), normal(images, 64, 32, 32)
    leaves = [x, *layer.parameters()]
    return lambda: layer(x), leaves, leaves


def filters(fields: int) -> Made:
    """Filters of a group convolution on four rotations from its kernel network."""
    layer = GroupConv2d(fields, fields, 3, group=Cyclic(4), padding=1).to(DEVICE)
    leaves = list(layer.parameters())
    return lambda: tuple(t for t in layer.generate((32, 32)) if t is not None), leaves, leaves


def neighbours(images: int, fields: int, hidden: int = 32) -> Made:
    """A convolution that depends on the position, 5 x 5 on 32 x 32."""
    phi, output = normal(1024, 25, 1, hidden), normal(fields, fields, hidden)
    inputs = [normal(images, fields, 32, 32), phi, output, normal(fields)]
    g = Geometry(fields, fields, 1, 1, 5, 1, 2)
    return lambda: position_conv2d(*inputs, g, "factored"), inputs, inputs


def places(side: int) -> Made:
    """The features of such a convolution at each place, from its kernel network."""
    layer = RelaxedGroupConv2d(8, 8, 5, padding=2, group=Cyclic(1)).to(DEVICE)
    leaves = list(layer.parameters())
    return lambda: layer.generate((side, side)).weight, leaves, leaves


def classes(rows: int) -> Made:
    """The expected log-likelihood of ten classes under Gaussian outputs, two draws."""
    model = shallow_model((1, 4, 4), 10, Affine2("rotation"), features=8).to(DEVICE)
    mean, variance = normal(1, rows, 10), (1 + torch.rand(1, rows, 10, device=DEVICE))
    targets = torch.arange(rows, device=DEVICE) % 10
    leaves = [mean, variance.requires_grad_()]
    return lambda: log_likelihood(model, mean, variance, targets, 2), leaves, leaves


def flow(points: int) -> Made:
    """Log-densities under the paper's flow: 5 dimensions, 6 layers of 256 units."""
    model = ConditionalFlow((1.0,) * 5, 512, layers=6, bins=6, hidden=256).to(DEVICE)
    eta, context = normal(points, 5), normal(points, 512)
    leaves = [eta, context, *model.parameters()]
    return lambda: model.log_prob(eta, context), leaves, leaves


def circle(points: int) -> Made:
    """A spline of 6 bins on the circle."""
    inputs = [normal(1, points), normal(19, 1, points)]
    return lambda: circular_spline(*inputs, 3.0), inputs, inputs


def cases() -> Iterator[Case]:
    """Largest last within a kind; multiplications forward, one product of two numbers each."""
    for points in (128, 2560, 40_960):
        inside = 512 * 256 + 256 * 57 + 3 * 256
        yield f"flow, {points} points", lambda n=points: flow(n), 6 * points * inside
    for batch, samples, units in ((16, 8, 256), (128, 32, 1024), (2048, 32, 1024)):
        yield (
            f"mean over {samples} maps, {batch} x {units}",
            lambda b=batch, s=samples, u=units: averages(b, s, u),
            0,
        )
    for batch, samples in ((8, 8), (128, 32), (4096, 32)):
        yield (
            f"rows resampled by {samples} maps, {batch} x 28 x 28",
            lambda b=batch, s=samples: rows(b, s),
            0,
        )
    for batch, features in ((16, 128), (128, 1024), (128, 4096)):
        yield (
            f"ten full covariances, {batch} x {features}",
            lambda b=batch, f=features: covariance(b, f),
            10 * batch * (features**2 / 2 + features),
        )
    for images in (8, 128, 1024):
        yield f"norm of fields, {images} x 64 x 32 x 32", lambda n=images: norm(n), 0
    for fields in (8, 32, 64):
        taps = 16 * 9
        yield (
            f"filters on 4 rotations, {fields} fields",
            lambda n=fields: filters(n),
            taps * 32 * (32 + 32 + fields**2),
        )
    for images, fields in ((1, 16), (16, 64), (64, 64)):
        by_tap = images * fields * 1024 * 25 * 32
        yield (
            f"position-dependent convolution, {images} x {fields} x 32 x 32",
            lambda n=images, f=fields: neighbours(n, f),
            by_tap + images * 1024 * fields * fields * 32,
        )
    for side in (8, 32, 128):
        pixels = 25 * side**2 * 32 * 32 + (side + 4) ** 2 * 32 * 32
        yield f"features at each place, {side} x {side}", lambda n=side: places(n), pixels
    for count in (128, 2048, 131_072):
        yield f"log-likelihood of classes, {count}", lambda n=count: classes(n), 0
    for points in (1024, 2560, 1_048_576):
        yield f"spline on the circle, {points}", lambda n=points: circle(n), 0


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _outputs(out: Any) -> tuple[Tensor, ...]:  # noqa: ANN401
    return tuple(out) if isinstance(out, tuple) else (out,)


def product_rate() -> float:
    """Multiplications per second of a large product in TF32."""
    n = 8192 if GPU else 64
    a = torch.randn(n, n, device=DEVICE)
    torch.set_float32_matmul_precision("high")
    took = graph_seconds([lambda: a @ a] * 3)
    return n**3 / took


def both_parts(make: Callable[[], Made], copies: int, rounds: int) -> dict[str, list[float]]:
    """Seconds forward, and forward and backward, of copies that were all called once before."""
    made = [make() for _ in range(copies)]
    given = [[torch.randn_like(part) for part in _outputs(one[0]())] for one in made]

    def forward(one: Made, _: list[Tensor]) -> object:
        with torch.no_grad():
            return one[0]()

    def both(one: Made, weights: list[Tensor]) -> object:
        out = _outputs(one[0]())
        return out, torch.autograd.grad(out, one[2], weights, allow_unused=True)

    found = {}
    for part, work in (("forward", forward), ("both", both)):
        pairs = zip(made, given, strict=True)
        calls = [lambda one=one, w=w, work=work: work(one, w) for one, w in pairs]
        found[part] = [graph_seconds(calls) for _ in range(rounds)]
    return found


def measure(
    make: Callable[[], Made], multiplications: float, rates: tuple[float, float]
) -> Iterator[dict[str, Any]]:
    """Rows forward, and forward and backward."""
    function, inputs, wanted = make()
    with torch.no_grad():
        size = _bytes(inputs) + _bytes(_outputs(function()))
    copies = max(2, min(32, int(ENOUGH / size))) if GPU else 1
    ours = both_parts(make, copies, 3 if GPU else 1)
    with without_kernels():
        plain = both_parts(make, copies, 1)
    moved = {"forward": size, "both": 2 * size + _bytes(wanted)}
    for part in moved:
        mine, theirs = statistics.median(ours[part]), plain[part][0]
        products = multiplications * (3 if part == "both" else 1)
        floors = moved[part] / rates[0], products / rates[1]
        yield {
            "part": part,
            "floor (us)": 1e6 * max(floors),
            "floor of": "memory" if floors[0] >= floors[1] else "products",
            "ours (us)": 1e6 * mine,
            "torch (us)": 1e6 * theirs,
            "ours over floor": mine / max(floors),
            "torch over ours": theirs / mine,
        }


def optimisers(rates: tuple[float, float]) -> Iterator[dict[str, Any]]:
    """Steps of Adam: below the diagonal of ten factors, and clipped over many tensors."""
    for features in (128, 1024, 4096) if GPU else (8,):
        weight = torch.nn.Parameter(torch.randn(10, features, features, device=DEVICE).tril(-1))
        weight.grad = torch.randn_like(weight)
        weight.triangular = True  # type: ignore[attr-defined]
        rate = torch.tensor(1e-3, device=DEVICE)
        ours = TriangularAdam([weight], lr=rate, fused=GPU, capturable=GPU)
        other = torch.nn.Parameter(weight.detach().clone())
        other.grad = weight.grad
        plain = torch.optim.Adam([other], lr=rate, fused=GPU, capturable=GPU)
        moved = 7 * 4 * 10 * features**2 / 2  # weight and both moments twice, the gradient once
        yield compared(
            f"Adam below the diagonal, 10 x {features}", ours.step, plain.step, moved / rates[0]
        )
    for count in (1, 10, 40) if GPU else ():
        sizes = [2048 * 2048, 2048, 2048] * count
        mine = [torch.randn(n, device=DEVICE, requires_grad=True) for n in sizes]
        theirs = [p.detach().clone().requires_grad_() for p in mine]
        for p, q in zip(mine, theirs, strict=True):
            p.grad = q.grad = torch.randn_like(p)
        settings = {"weight_decay": 1e-4, "fused": True, "capturable": True}
        rate = torch.tensor(1e-3, device=DEVICE)
        fast = FusedAdamW([{"params": mine, "lr": rate, "clip": True}], **settings)
        slow = torch.optim.AdamW(theirs, lr=rate, **settings)
        fast.largest = 1e9

        def clipped(slow: Any = slow, theirs: list[Tensor] = theirs) -> None:  # noqa: ANN401
            torch.nn.utils.clip_grad_norm_(theirs, 1e9, foreach=True)
            slow.step()

        moved = 8 * 4 * sum(sizes)  # the gradient is read for its norm, and again
        yield compared(f"AdamW with clipping, {sum(sizes)}", fast.step, clipped, moved / rates[0])


def compared(
    what: str, ours: Callable[[], object], plain: Callable[[], object], floor: float
) -> dict[str, Any]:
    """One row of an optimiser."""
    for step in (ours, plain):
        step()  # its state is there
    mine = statistics.median(graph_seconds([ours] * 3) for _ in range(3))
    theirs = graph_seconds([plain] * 3)
    row = {"what": what, "part": "step", "floor (us)": 1e6 * floor, "floor of": "memory"}
    row |= {"ours (us)": 1e6 * mine, "torch (us)": 1e6 * theirs}
    return row | {"ours over floor": mine / floor, "torch over ours": theirs / mine}


def main() -> None:
    """Measure and record; a GPU is needed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most-seconds", type=float, default=1e9, help="begin nothing after")
    parser.add_argument("--anyhow", action="store_true", help="also without a GPU, once each")
    parser.add_argument("--cases", nargs="+", default=[""], help="that begin so; all by default")
    options, began = parser.parse_args(), time.perf_counter()
    if not GPU and not options.anyhow:
        print("needs a GPU")
        return
    torch.manual_seed(0)
    rates = bandwidth(), product_rate()
    rows_found: list[dict[str, Any]] = [
        {"what": "copy", "GB/s": rates[0] / 1e9, "TF32 (TFLOP/s)": 2 * rates[1] / 1e12}
    ]

    def found() -> Iterator[dict[str, Any]]:
        if any("Adam".startswith(name) for name in options.cases):
            yield from optimisers(rates)
        for what, make, multiplications in cases():
            if what.startswith(tuple(options.cases)):
                for row in measure(make, multiplications, rates):
                    yield {"what": what, **row}

    for row in found():
        rows_found.append(row)
        print(row, flush=True)
        part = options.cases != [""]
        record(f"kernels_layers-{DEVICE}", rows_found, part=part)  # as they come
        if time.perf_counter() - began > options.most_seconds:
            print("out of time", flush=True)
            break


if __name__ == "__main__":
    main()
