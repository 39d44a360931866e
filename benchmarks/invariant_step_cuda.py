"""Paper 0's training step on a GPU: 1,024 units, S = 32, batch 128, full covariance.

A straightforward version (32 x 1,024 filters warped, plain autograd), and the library's: one run,
and 30 runs as one computation, each step a CUDA graph of the shared training loop. Targets on one
H200: 0.4 ms for one run, 0.25 ms per run and step for several.

    python benchmarks/invariant_step_cuda.py            # --profile: and the time of each kernel
    python benchmarks/invariant_step_cuda.py --quick    # a few steps, on any device
"""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_weights import NaturalConfig, elbo_loss, fit_natural
from symmetries.nn.invariant_model import shallow_model
from symmetries.training import TrainConfig, train

sys.path.insert(0, str(Path(__file__).parent))
from common import record

UNITS, SAMPLES, BATCH, SIDE, CLASSES = 1024, 32, 128, 28, 10
GROUP = Affine2("rotation")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EXAMPLES = 20_000


class Clock:
    """Seconds per step, over the second half of a run."""

    def __init__(self, steps: int) -> None:
        self.first, self.last = steps // 2, steps - 1
        self.per_step = math.nan

    def __call__(self, step: object, metrics: object) -> None:
        """Note the time where it counts."""
        index = step if isinstance(step, int) else step.index
        if index == self.first:
            synchronise()
            self.began = time.perf_counter()
        elif index == self.last:
            synchronise()
            self.per_step = (time.perf_counter() - self.began) / (self.last - self.first)


def synchronise() -> None:
    """Wait for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def straightforward(images: Tensor, labels: Tensor, steps: int) -> float:
    """Seconds per eager step: every filter warped by every transformation, Adam on all."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    filters = (torch.randn(UNITS, 1, SIDE, SIDE, device=DEVICE) * 0.03).requires_grad_()
    width = torch.tensor(0.5, device=DEVICE, requires_grad=True)
    mean = torch.zeros(CLASSES, UNITS, device=DEVICE, requires_grad=True)
    eye = torch.eye(UNITS, device=DEVICE).expand(CLASSES, -1, -1)
    factor = (0.1 * eye).clone().requires_grad_()
    optimizer = torch.optim.Adam([filters, width, mean, factor], fused=DEVICE == "cuda")
    clock = Clock(steps)
    for step in range(steps):
        index = torch.randint(len(images), (BATCH,), generator=generator, device=DEVICE)
        x, y = images[index].flatten(1), labels[index]
        noise = 2 * torch.rand(SAMPLES, 1, generator=generator, device=DEVICE) - 1
        theta = GROUP.exp(noise * width)[:, :2].repeat_interleave(UNITS, 0)
        copies = filters.repeat(SAMPLES, 1, 1, 1)
        grid = F.affine_grid(theta, list(copies.shape), align_corners=False)
        moved = F.grid_sample(copies, grid, align_corners=False).reshape(SAMPLES, UNITS, -1)
        phi = torch.einsum("bp,sup->sbu", x, moved).relu().mean(0)
        low = factor.tril()
        w = mean + (low @ torch.randn(CLASSES, UNITS, 1, device=DEVICE))[..., 0]
        logits = phi @ w.T
        trace = low.square().sum() + mean.square().sum()
        log_det = 2 * low.diagonal(dim1=1, dim2=2).abs().log().sum()
        kl = 0.5 * (trace - log_det - CLASSES * UNITS)
        loss = F.cross_entropy(logits, y) + kl / len(images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock(step, None)
    return clock.per_step


def library(images: Tensor, labels: Tensor, kind: str, runs: int, steps: int) -> float:
    """Seconds per step of the shared loop."""
    widths = [3.0 * (i + 1) / runs for i in range(runs)]
    model = shallow_model(
        (1, SIDE, SIDE), CLASSES, GROUP, half_widths=widths, features=UNITS, kind=kind,
        posterior="full", learn_prior=True, scale=0.05, bias=False,
    )  # fmt: skip
    config = TrainConfig(steps, BATCH, device=DEVICE, progress=False).replace(log_every=10**6)
    clock = Clock(steps)
    loss = elbo_loss(len(images), samples=SAMPLES)
    train(model, loss, (images, labels), config, on_step=clock)
    return clock.per_step


def natural(images: Tensor, labels: Tensor, runs: int, steps: int) -> float:
    """Seconds per full-batch natural-gradient step."""
    widths = [3.0 * (i + 1) / runs for i in range(runs)]
    model = shallow_model(
        (1, SIDE, SIDE), CLASSES, GROUP, half_widths=widths, features=UNITS, bias=False
    ).to(DEVICE)
    clock = Clock(steps)
    config = NaturalConfig(steps, batch_size=len(images), search=0)
    config = config.replace(head_only=1, rate=0.5)
    fit_natural(model, [images], labels, config, on_step=clock)
    return clock.per_step


def profiled(images: Tensor, labels: Tensor, kind: str, runs: int, steps: int) -> None:
    """Print the kernels of some steps, the longest first."""
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as profile:
        library(images, labels, kind, runs, steps)
    events = [e for e in profile.key_averages() if e.self_device_time_total > 0]
    events.sort(key=lambda e: -e.self_device_time_total)
    total = sum(e.self_device_time_total for e in events)
    print(f"{kind}, {runs} runs: {total / steps:.1f} us of kernels per step", flush=True)
    for event in events[:24]:
        each = event.self_device_time_total / steps
        print(f"{each:9.1f} us  {event.count / steps:5.1f} x  {event.key[:90]}", flush=True)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few steps, on any device")
    parser.add_argument("--profile", action="store_true", help="also show the time of each kernel")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and record."""
    options = parse(arguments)
    quick: bool = options.quick
    torch.set_float32_matmul_precision("high")
    if DEVICE == "cpu" and not quick:
        print("needs a GPU; use invariant_step.py on a CPU, or --quick for a trial")
        return
    steps = 6 if quick else 600
    generator = torch.Generator().manual_seed(0)
    count = 400 if quick else EXAMPLES
    images = torch.rand(count, 1, SIDE, SIDE, generator=generator).to(DEVICE)
    labels = torch.randint(CLASSES, (count,), generator=generator).to(DEVICE)
    rows = []

    def add(name: str, kind: str, runs: int, seconds: float) -> None:
        rows.append(
            {"what": name, "kind": kind, "runs": runs, "ms_per_step": 1000 * seconds}
            | {"ms_per_run_and_step": 1000 * seconds / runs}
        )
        print(rows[-1], flush=True)
        record(f"invariant_step-{DEVICE}", rows, part=quick)

    if not quick:
        add("straightforward, eager", "relu", 1, straightforward(images, labels, 60))
    for kind in ("fourier", "relu"):
        for runs in (1, 2) if quick else (1, 30):
            few = max(4, steps // (1 if runs < 10 else 4))
            add("library", kind, runs, library(images, labels, kind, runs, few))
    many = 2 if quick else 8
    add("natural, full batch", "fourier", many, natural(images, labels, many, 6))
    if options.profile:
        for kind, runs in (("fourier", 1), ("fourier", 2 if quick else 30), ("relu", 1)):
            profiled(images, labels, kind, runs, 6 if quick else 60)


if __name__ == "__main__":
    main()
