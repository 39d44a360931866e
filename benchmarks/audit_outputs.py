"""Time of an audit of outputs against bare forward passes of the same inputs, under C4.

Targets: on one H200, 10,000 pictures of 224 x 224 through a ResNet-50, at most 1.5 times the bare
passes of the same 40,000 inputs, start-up apart; on two cores, 100 pictures through a ResNet-18,
at most 1.3 times. Pictures and weights are random. The bare passes run the model alone, in batches
of the same size, on pictures that were moved before the clock starts: as many of them as fit into
MEMORY, over and over. "audit_model" is the measure; "audit" is what ``symmetries audit --fast``
computes, with its checks, the hash of the data, its estimate of the time and the pictures of its
report; "audit_host" is the same for pictures in the host's memory, which are copied to the GPU.

    python benchmarks/audit_outputs.py                 # the goals of this machine, a minute or two
    python benchmarks/audit_outputs.py --depth 18 --images 8 --side 64 --rounds 1 --part  # small
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.auditing import AuditResult, audit_model

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record
from residual import resnet

try:  # it reads models of every kind, and needs what the package needs
    from symmetries import audit
except ImportError:
    audit = None

GOALS = {"cuda": 1.5, "cpu": 1.3}
MEMORY = 8 * 2**30  # bytes of moved pictures that are kept for the bare passes


class Cast(nn.Module):
    """A network that computes in another dtype, channels last; pictures and logits stay float32."""

    def __init__(self, network: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.network = network.to(dtype=dtype, memory_format=torch.channels_last)
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, K)."""
        y: Tensor = self.network(x.to(self.dtype, memory_format=torch.channels_last))
        return y.float()


def moved_batches(x: Tensor, size: int) -> list[Tensor]:
    """Batches of pictures in all four poses, as many as fit into MEMORY."""
    found: list[Tensor] = []
    for part in x.split(size):
        found += [part.rot90(k, (2, 3)).contiguous() for k in range(4)]
        if sum(batch.numel() * 4 for batch in found) >= MEMORY:
            break
    return found


def measure(asked: argparse.Namespace, device: str) -> dict[str, Any]:
    """Seconds of bare passes and of both audits, and what the audit found."""
    depth, count, side, size = asked.depth, asked.images, asked.side, asked.batch
    dtype = getattr(torch, asked.dtype)
    clock = time.process_time if asked.processor_time else time.perf_counter
    generator = torch.Generator(device).manual_seed(0)
    x = torch.rand(count, 3, side, side, generator=generator, device=device)
    model = Cast(resnet(depth).to(device), dtype)
    batches = moved_batches(x, size)
    passes = 4 * -(-count // size)

    def bare() -> Tensor:
        with torch.no_grad():
            for i in range(passes):
                logits = model(batches[i % len(batches)])
        return logits.argmax(1).cpu()

    def outputs() -> AuditResult:
        return audit_model(
            model,
            x,
            "c4",
            layers=(),
            gradients=False,
            local=False,
            closely=30,
            batch_size=size,
            progress=False,
        )

    def whole() -> AuditResult:
        return audit(model, x, "c4", fast=True, device=device, progress=False)

    def from_host() -> AuditResult:
        return audit(model, host, "c4", fast=True, device=device, progress=False)

    ways = {"bare": bare, "audit_model": outputs}
    if audit is not None:
        ways["audit"] = whole
    if audit is not None and device == "cuda":
        host = x.cpu()
        ways["audit_host"] = from_host
    times = interleaved(ways, asked.rounds, clock)
    seconds = medians(times)
    ratios = {
        name: medians({"": [a / b for a, b in zip(times[name], times["bare"], strict=True)]})[""]
        for name in ways
        if name != "bare"
    }
    found = outputs()
    return {
        "operation": "audit of outputs, C4",
        "network": f"ResNet-{depth}",
        "images": count,
        "side": side,
        "dtype": asked.dtype,
        "batch": size,
        "rounds": asked.rounds,
        "clock": "processor" if asked.processor_time else "wall",
        "seconds": seconds,
        "ratio_to_bare": ratios,
        "goal": GOALS[device],
        "agreement": found.agreement.mean,
    }


def main() -> None:
    """Measure, print and record."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    gpu = device == "cuda"
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--depth", type=int, choices=(18, 50), default=50 if gpu else 18)
    parser.add_argument("--images", type=int, default=10_000 if gpu else 100)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--batch", type=int, default=250 if gpu else 50)
    parser.add_argument("--rounds", type=int, default=2 if gpu else 3)
    parser.add_argument(
        "--dtype", choices=("bfloat16", "float32"), default="bfloat16" if gpu else "float32"
    )
    parser.add_argument("--processor-time", action="store_true", help="for a busy machine")
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument("--part", action="store_true", help="do not replace the stored table")
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    row = measure(asked, device)
    times = ", ".join(f"{name} {value:.2f} s" for name, value in row["seconds"].items())
    ratios = ", ".join(f"{name} {value:.2f}" for name, value in row["ratio_to_bare"].items())
    print(f"{row['network']}, {row['dtype']}: {times}; times bare: {ratios} ({row['goal']})")
    record(f"audit_outputs-{device}", [row], part=asked.part)


if __name__ == "__main__":
    main()
