"""CUDA graph against eager: the same weights after 50 steps, and how many steps per second.

    python benchmarks/graph_check.py [--steps 50] [--speed-steps 2000]

Each case trains one model twice from the same start, with graph="auto" and graph="off", and
compares the weights. A case that cannot be captured (it reads a number on the host) must stay
eager, say so, and still be right. Every learner, of ``manymodels.py``, is compared by its losses on
the way. A captured step has another Adam than an eager one, equal up to rounding, and some learners
make much of that in their first steps: "nudged" is what they make of weights that start 1e-7 away,
eagerly both. Without CUDA only the eager path runs.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.training import Batch, Step, TrainConfig, train

sys.path.insert(0, str(Path(__file__).parent))
import manymodels
from common import record

TOLERANCE = 1e-4  # relative, in the norm of all weights; bf16 gets a hundred times that
OF_LOSSES = 1e-3  # relative; or some times what a nudge does
NUDGE, TIMES = 1e-7, 5
FIRST = 5  # steps, of which the last two are captured: before a difference has grown


def mlp(dropout: float = 0.0, norm: bool = False) -> nn.Module:
    """A small network with the same weights every time."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(64, 128), nn.ReLU(), nn.Dropout(dropout)]
    layers += [nn.BatchNorm1d(128)] if norm else []
    return nn.Sequential(*layers, nn.Linear(128, 10))


def plain(model: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
    """Classification of noisy inputs; noise from the step, its size from the progress."""
    images, labels = batch
    noise = 0.1 * (1 - step.progress) * step.randn(*images.shape)
    scores = model(images + noise)
    accuracy = (scores.argmax(1) == labels).float().mean()
    return {"loss": nn.functional.cross_entropy(scores, labels), "accuracy": accuracy}


def reads_value(model: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
    """Waits for the device: cannot be captured."""
    terms = plain(model, batch, step)
    return {"loss": terms["loss"] * (1.0 + 0.0 * terms["accuracy"].item())}


def reads_index(model: nn.Module, batch: Batch, step: Step) -> dict[str, Tensor]:
    """Computes with the step's number in Python: must not be captured."""
    return {"loss": plain(model, batch, step)["loss"] * (1.0 + 0.1 * (step.index % 2))}


MODES = ("off", "auto")

Case = tuple[str, Callable[..., dict[str, Tensor]], dict[str, Any], dict[str, Any], bool]

# Name, loss, model, settings, and whether a graph is expected.
ADAMW = {"algorithm": "adamw", "weight_decay": 0.1}
CASES: list[Case] = [
    ("adam", plain, {}, {}, True),
    ("adamw, warm-up", plain, {}, {**ADAMW, "warmup": 0.05}, True),
    ("sgd, momentum", plain, {}, {"algorithm": "sgd", "momentum": 0.9, "lr": 0.05}, True),
    ("clipped", plain, {}, {"clip": 0.5}, True),
    ("dropout", plain, {"dropout": 0.3}, {}, True),
    ("batch norm", plain, {"norm": True}, {}, True),
    ("bf16-mixed", plain, {}, {"precision": "bf16-mixed"}, True),
    ("reads a value", reads_value, {}, {}, False),
    ("reads the index", reads_index, {"norm": True}, {}, False),
]


def run(case: Case, graph: str, steps: int, device: str) -> tuple[Tensor, float, bool]:
    """Train once: all weights and buffers in a row, steps per second, whether it stayed eager."""
    _, loss, build, settings, _ = case
    generator = torch.Generator().manual_seed(1)
    data = (torch.randn(4096, 64, generator=generator), torch.arange(4096) % 10)
    model = mlp(**build)
    config = TrainConfig(steps, 128, 1e-3, 3).replace(
        **settings,
        device=device,
        graph=graph,
        progress=False,
        log_every=1000,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        history = train(model, loss, data, config)
    eager = any("not captured" in str(warning.message) for warning in caught)
    values = [value.flatten().double().cpu() for value in model.state_dict().values()]
    return torch.cat(values), history.steps_per_second, eager


def nudged(make: Callable[[int], Any]) -> Callable[[int], Any]:
    """The same fitting from weights that are a last digit away."""

    def train_jobs(seed: int) -> Any:  # noqa: ANN401
        inner = make(seed)
        job = next(inner)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in job.model.parameters():
                p *= 1 + NUDGE * torch.randn(p.shape, generator=generator).to(p.device)
        history = yield job
        try:
            inner.send(history)
        except StopIteration as end:
            return end.value
        raise RuntimeError("a fitting of several trainings")

    return train_jobs


def learners() -> Iterator[tuple[dict[str, Any], bool]]:
    """A row for each learner, and whether it is fine: losses of one model both ways."""
    for what, size, make in manymodels.cases():
        if size in ("paper", "width 16"):
            continue
        losses, speeds, eager = {}, {}, False
        for way in ("nudged", *MODES):
            manymodels.RUN |= {"graph": "off" if way == "nudged" else way, "log_every": 1}
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                history = manymodels.fit(nudged(make) if way == "nudged" else make, 1)[0]
            eager = any("not captured" in str(warning.message) for warning in caught)
            losses[way] = torch.tensor(history["loss"], dtype=torch.float64)
            late = len(history.step) // 3  # compiled and captured by then
            speeds[way] = (len(history.step) - 1 - late) / (history.times[-1] - history.times[late])
        del manymodels.RUN["graph"], speeds["nudged"]
        by_step = {way: (found / losses["off"] - 1).abs() for way, found in losses.items()}
        row = {"case": f"{what}, {size}", "captured": not eager}
        fine = not eager
        for name, steps in (("first steps, ", FIRST), ("", None)):
            moved = {way: float(found[:steps].max()) for way, found in by_step.items()}
            row |= {f"{name}difference": moved["auto"], f"{name}nudged": moved["nudged"]}
            fine = fine and moved["auto"] <= max(OF_LOSSES, TIMES * moved["nudged"])
        yield row | speeds, fine


def main() -> None:
    """Compare, print, record; a failure ends with an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--speed-steps", type=int, default=2000)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        _, speed, _ = run(CASES[0], "auto", arguments.steps, "cpu")
        print(f"no CUDA here: the eager path ran on the CPU at {speed:,.0f} steps/s")
        return
    rows, failed = [], []
    for case in CASES:
        name, expected = case[0], case[4]
        eager, _, _ = run(case, "off", arguments.steps, "cuda")
        graphed, _, fell_back = run(case, "auto", arguments.steps, "cuda")
        difference = float((graphed - eager).norm() / eager.norm())
        tolerance = TOLERANCE * (100 if name == "bf16-mixed" else 1)
        fine = difference <= tolerance and fell_back != expected
        speeds = {mode: run(case, mode, arguments.speed_steps, "cuda")[1] for mode in MODES}
        row = {"case": name, "captured": not fell_back, "difference": difference, **speeds}
        print(row, "fine" if fine else "FAILED")
        rows.append(row)
        failed += [] if fine else [name]
    for row, fine in learners():
        print(row, "fine" if fine else "FAILED", flush=True)
        rows.append(row)
        failed += [] if fine else [row["case"]]
        record("graph_check-cuda", rows)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
