"""Training steps of the symmetry model at the paper's size, and its flow against zuko's.

On a GPU: one step of each stage (batch 512 x 5, 28 x 28, symmetric and invertibility loss, the
training loop's CUDA graph), and the same step eagerly. Targets on one H200: 1.0 ms for the
inference network, and the generative network within three times its floor. On a CPU: the same step
against a straightforward version (matrix_exp, matrix inverses, affine_grid, one network call per
view), interleaved, target 1.3x. And log-density and sampling of the flow against zuko's coupling
flow of the same size, targets 1.5x and 2.5x.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/symmetry_step.py [--batch 64]
    python benchmarks/symmetry_step.py [--stages generative] [--steps 300]   # on a GPU
    python benchmarks/symmetry_step.py --repetitions 7   # median and spread, on a GPU
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.distributions.flow import ConditionalFlow
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.learners.symmetry_model.fitting import STAGES
from symmetries.learners.symmetry_model.losses import lie_inference_loss
from symmetries.ops.affine_exp import generators
from symmetries.training import Step
from symmetries.training.matmul_precision import Products, use_matmul_precision

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record

GROUP = "shift_x,shift_y,rotation,scale_x,scale_y"
SHAPE = (1, 28, 28)
CONFIG = SymmetryConfig.preset("paper").replace(interpolation="bilinear")


def straightforward(model: SymmetryModel, images: Tensor, step: Step) -> Tensor:
    """The symmetric and the invertibility loss as one would write them down."""
    k, dim = CONFIG.samples, 5
    basis = generators(torch.float32)[:dim].to(images.device)
    x = images.repeat_interleave(k, 0)

    def matrix(eta: Tensor) -> Tensor:
        return torch.linalg.matrix_exp(torch.einsum("nd,dij->nij", eta, basis))

    def warp(element: Tensor, pictures: Tensor) -> Tensor:
        theta = torch.linalg.inv(element)[:, :2]
        # x right and y up, to torch's y down
        flip = torch.tensor([1.0, -1.0, 1.0], device=images.device)
        theta = theta * flip[:2, None] * flip
        grid = F.affine_grid(theta, list(pictures.shape), align_corners=False)
        return F.grid_sample(pictures, grid, align_corners=False)

    def random() -> Tensor:
        unit = 2 * torch.rand(len(x), dim, generator=step.generator, device=images.device) - 1
        return unit * model.inference.bounds

    r1, r2 = matrix(random()), matrix(random())
    x1, x2 = warp(r1, x), warp(r2, x)
    e1, e2 = matrix(model.inference(x1)), matrix(model.inference(x2))
    whole = torch.linalg.inv(r2) @ e2 @ torch.linalg.inv(e1) @ r1
    agreement = F.mse_loss(warp(whole, x), x)
    return agreement + 0.1 * F.mse_loss(warp(e1, warp(torch.linalg.inv(e1), x1)), x1)


def cpu_rows(batch: int) -> list[dict[str, Any]]:
    """Interleaved ratios on the CPU."""
    model = SymmetryModel(GROUP, SHAPE, CONFIG)
    images = torch.rand(batch, *SHAPE)
    step = Step(10, 0, torch.device("cpu"))

    def ours(products: Products | None) -> None:
        with use_matmul_precision(products):
            step.begin(0)
            model.zero_grad()
            lie_inference_loss(model.inference, images, step, model.act, CONFIG)["loss"].backward()

    def plain() -> None:
        step.begin(0)
        model.zero_grad()
        straightforward(model, images, step).backward()

    ways: dict[str, Products | None] = {"float32": None}
    calls: dict[str, Callable[[], None]] = {"straightforward": plain}
    calls |= {way: lambda products=products: ours(products) for way, products in ways.items()}
    calls["products alone"] = products_alone(batch)
    times = medians(interleaved(calls, rounds=7))
    slow, least = times["straightforward"], times["products alone"]
    rows = []
    for way in ways:
        row = {"what": "inference step", "products": way, "batch": batch, "straightforward": slow}
        rows.append(row | {"ours": times[way], "ratio": slow / times[way]})
    rows[0] |= {"float32 products alone": least, "at most in float32": slow / least}
    return rows


def products_alone(batch: int) -> Callable[[], None]:
    """The network's matrix products in both directions, and nothing else: what is left at least."""
    rows = 2 * CONFIG.samples * batch
    widths = (SHAPE[1] * SHAPE[2], *CONFIG.widths)
    layers = [
        (torch.rand(rows, a), torch.rand(b, a), torch.rand(rows, b)) for a, b in pairwise(widths)
    ]

    def run() -> None:
        for i, (x, weight, gradient) in enumerate(layers):
            x @ weight.T
            gradient.T @ x
            if i:
                gradient @ weight

    return run


def flow_rows() -> list[dict[str, Any]]:
    """The flow against zuko's, 2,560 x 5, context 512, 6 layers.

    Zuko's base is a fixed normal distribution, so ours has no hidden layers there; the last row is
    with the two that the model uses.
    """
    import zuko

    context, eta = torch.randn(2560, 512), 0.2 * torch.randn(2560, 5)
    ours = ConditionalFlow((1.0,) * 5, 512, base=())
    whole = ConditionalFlow((1.0,) * 5, 512)
    peer = zuko.flows.NSF(5, 512, bins=6, transforms=6, hidden_features=(256,), passes=2)
    few = torch.randn(20, 512)
    calls: dict[str, dict[str, Any]] = {
        "log-density": {
            "zuko": lambda: peer(context).log_prob(eta),
            "ours": lambda: ours.log_prob(eta, context),
        },
        "sampling": {
            "zuko": lambda: peer(context).sample(),
            "ours": lambda: ours.sample(context, 1),
        },
        "sampling, 128 for each of 20 contexts": {
            "zuko": lambda: peer(few).sample((128,)),
            "ours": lambda: ours.sample(few, 128),
        },
        "log-density, ours with a base of two hidden layers": {
            "zuko": lambda: peer(context).log_prob(eta),
            "ours": lambda: whole.log_prob(eta, context),
        },
    }
    rows = []
    with torch.no_grad():
        for what, pair in calls.items():
            times = medians(interleaved(pair, rounds=7))
            rows.append({"what": f"flow, {what}", **times, "ratio": times["zuko"] / times["ours"]})
    return rows


RATES = {"bf16": 785e12, "tf32": 405e12}  # operations per second of large products
BANDWIDTH = 4.3e12  # bytes per second of a large copy
BYTES = {"bf16": 2, "tf32": 4}  # of a hidden unit


def network_floor(
    widths: Sequence[int], rows: int, products: str, *, trained: bool, first: bool = True
) -> float:
    """Seconds of linear layers with gelu and norm: each operation at its own ceiling.

    Forward: product, norm. Backward: norm, product for the weights, product for the inputs (not
    for those of the first layer, if they are pictures).
    """
    size, rate = BYTES[products], RATES[products]
    total = 0.0
    for i, (a, b) in enumerate(pairwise(widths)):
        moved = size * (rows * a + a * b + rows * b) / BANDWIDTH
        product = max(2 * rows * a * b / rate, moved)
        norm = size * rows * b / BANDWIDTH
        total += product + 2 * norm
        if trained:
            total += product + 3 * norm + (product if i or not first else 0.0)
    return total


def floor_pieces(stage: str, products: str, config: SymmetryConfig = CONFIG) -> dict[str, float]:
    """Seconds that the parts of one step need at least, with bilinear warps.

    Every operation on its own, at the ceiling of what it needs most: networks as above; each warp
    reads and writes its pictures once in each direction; Adam reads weights, gradients and both
    averages and writes all but the gradients, which were written once. Launches, random numbers
    and matrices of transformations count nothing.

    The flow's layers move hidden units eight times (the norm's input and output, the product's
    input; backward the gradient between them, the norm's two inputs and its output, and once more
    for the weights) and parameters of splines six times.
    """
    batch, k = config.inference.batch_size, config.objective.samples
    pixels, dim = SHAPE[0] * SHAPE[1] * SHAPE[2], 5
    f = (pixels, *config.network.widths)
    picture = 4 * pixels / BANDWIDTH
    model = SymmetryModel(GROUP, SHAPE, config)
    net = model.inference if stage == "inference" else model.generative
    optimiser = 32 * sum(p.numel() for p in net.parameters()) / BANDWIDTH
    if stage == "inference":
        rows = 2 * k * batch
        return {
            "network": network_floor(f, rows, products, trained=True),
            # Versions, written and read; three warps of half as many, with their gradients.
            "warps": picture * (2 * rows + rows / 2 * (4 + 4 + 5)),
            "optimiser": optimiser,
        }
    rows = k * batch
    features, base = (pixels, *config.flow.features), (config.flow.features[-1], *config.flow.base)
    wide = config.flow.conditioner * config.flow.layers
    units = 8 * BYTES[products] * rows * wide
    splines = 6 * 4 * rows * (3 * config.flow.bins - 1) * dim / 2 * config.flow.layers
    return {
        "warps": picture * (2 * (rows + batch) + 2 * rows),
        "inference network": network_floor(f, rows + batch, products, trained=False),
        "features": network_floor(features, rows, products, trained=True),
        "context to the flow": 3 * 2 * rows * config.flow.features[-1] * wide / RATES[products],
        "base": network_floor(base, rows, products, trained=True, first=False),
        "flow": (units + splines) / BANDWIDTH,
        "optimiser": optimiser,
    }


WAYS = (
    ("auto", "bilinear", "tf32"),
    ("auto", "bilinear", "bf16"),
    ("auto", "bspline", "bf16"),
    ("off", "bilinear", "bf16"),
)


def repeated_rows(steps: int, repetitions: int) -> list[dict[str, Any]]:
    """Both stages with products in TF32 (the default) and in bfloat16, in turn, several times.

    "milliseconds" is the median over the repetitions and "spread" half the distance of their
    quartiles; every repetition is a fit of its own, with its own graph.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for _ in range(repetitions):
        for one in gpu_rows(steps, ways=WAYS[:2], stored=None):
            row = rows.setdefault((one["what"], one["products"]), one | {"each": []})
            row["each"].append(round(one["milliseconds"], 4))
            row["milliseconds"] = statistics.median(row["each"])
            if len(row["each"]) > 1:
                low, _, high = statistics.quantiles(row["each"], n=4)
                row["spread"] = round((high - low) / 2, 4)
            row["over floor"] = row["milliseconds"] / row["floor (ms)"]
        record("symmetry_repeated-cuda", list(rows.values()))
    return list(rows.values())


def gpu_rows(
    steps: int = 1200,
    stages: Sequence[str] = STAGES,
    ways: Sequence[tuple[str, str, str]] = WAYS,
    stored: str | None = "symmetry_step-cuda",
) -> list[dict[str, Any]]:
    """Milliseconds per step of the stages in the training loop, with and without its graph.

    "milliseconds" is the time between the first quarter and the end, "start" what the first step
    costs once in a process: kernels are compiled and the graph is captured. Rows are kept as they
    come.
    """
    images = torch.rand(10_000, *SHAPE)
    rows: list[dict[str, Any]] = []
    for graph, interpolation, products in ways:
        count = steps if graph == "auto" else steps // 20
        config = CONFIG.replace(
            interpolation=interpolation,
            matmul_precision=products,
            inference=replace(CONFIG.inference, steps=count),
            generative=replace(CONFIG.generative, steps=count),
        )
        model = SymmetryModel(GROUP, SHAPE, config)
        run = {"device": "cuda", "progress": False, "graph": graph, "log_every": count // 4}
        for stage in stages:
            history = model.fit(images, stages=(stage,), **run)
            seconds = history.times[-1] - history.times[1]
            each = seconds / (history.step[-1] - history.step[1])
            row = {
                "what": f"{stage} step",
                "graph": graph,
                "interpolation": interpolation,
                "products": products,
                "milliseconds": 1000 * each,
                "start": history.seconds - each * count,
            }
            if interpolation == "bilinear":
                pieces = floor_pieces(stage, products)
                floor = sum(pieces.values())
                row |= {"floor (ms)": 1000 * floor, "over floor": each / floor}
                row["floor of parts (us)"] = ", ".join(
                    f"{name} {1e6 * t:.1f}" for name, t in pieces.items()
                )
            rows.append(row)
            print(row, flush=True)
            if stored is not None:
                record(stored, rows)
    return rows


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--repetitions", type=int, default=1, help="of both stages, in turn")
    arguments = parser.parse_args()
    if torch.cuda.is_available() and arguments.repetitions > 1:
        repeated_rows(arguments.steps, arguments.repetitions)
        return
    if torch.cuda.is_available():
        gpu_rows(arguments.steps, arguments.stages)
        return
    rows = cpu_rows(arguments.batch) + flow_rows()
    for row in rows:
        print(row)
    record("symmetry_step-cpu", rows)


if __name__ == "__main__":
    main()
