"""Tables 1 to 3 and Figure 4 of van der Ouderaa, Romero and van der Wilk 2022, regenerated.

Every run is one row of the results, written as soon as it is done; runs that are already in the
file are not repeated, so that a campaign can be stopped and continued.

    python papers/relaxed-equivariance/run.py --table 2 --data DATA
    python papers/relaxed-equivariance/run.py --table 3 --data DATA --epochs 20 --seeds 3
    python papers/relaxed-equivariance/run.py --figure 4 --data DATA --epochs 20
    python papers/relaxed-equivariance/run.py --quick
"""

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))

from image_sets import flip_and_crop, images_of

from symmetries._utils.provenance import provenance
from symmetries.groups import Cyclic
from symmetries.learners.relaxed import accuracy, fit_relaxed
from symmetries.nn.relaxation import relaxation, relaxed_layers
from symmetries.nn.relaxed_networks import RelaxedCNN, RelaxedResNet, Symmetry
from symmetries.testing import invariance_error
from symmetries.training import History, TrainConfig
from symmetries.training.atomic_files import write_atomic

HERE = Path(__file__).parent
LAMBDAS = (0.001, 0.1, 0.5, 1.0, 5.0)
FREQUENCIES = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
START = 0.1  # of a learned omega': where the kernel is still close to linear in it
FRACTION = 0.9  # of the rotations at the start of "partial": at 1 its gradient may be dead
RATE = 4.0  # learning rate of omega' and fractions by that of the weights, where nothing is said
TRACED = (1, 50, 100, 200, 400, 800)  # steps at which a learned omega' is written down


Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One trained model.

    Args:
        experiment: the table or figure that it belongs to.
        data: name of the set.
        rotations: of the group; 1 is T(2) alone.
        mode: "strict", "partial" or "soft".
        relaxed: which subgroup is soft, "rotation" or "translation".
        omega: omega' at the start.
        penalty: lambda where omega' is learned; None where it is fixed.
        augment: flips and padded crops.
        epochs: of training.
        seed: of weights and batches.
        validation: train on nine tenths and report the accuracy on the last.
        network: "resnet", the baseline's, or "cnn".
        width: fields of the first layer.
        kernel_size: of its layers.
        batch_size: images per step.
        lr: learning rate.
        rate: that of a learned omega' or fraction, as a multiple of it.
    """

    experiment: str
    data: str
    rotations: int
    mode: str
    relaxed: str = "rotation"
    omega: float = 0.5
    penalty: float | None = None
    augment: bool = False
    epochs: int = 5
    seed: int = 0
    validation: bool = False
    network: str = "resnet"
    width: int = 32
    kernel_size: int = 7
    batch_size: int = 64
    lr: float = 1e-3
    rate: float = RATE

    def model(self, channels: int, classes: int, small: bool) -> nn.Module:
        """The network, with weights from the seed."""
        torch.manual_seed(self.seed)
        relax = {self.relaxed: self.omega} if self.mode == "soft" else None
        learn = self.mode == "partial" or self.penalty is not None
        symmetry = Symmetry(Cyclic(self.rotations), self.mode, relax, learn)
        if small:
            symmetry = dataclasses.replace(symmetry, options={"hidden": 16, "features": 16})
            return RelaxedCNN(channels, classes, symmetry, width=4, kernel_size=3)
        build = {"resnet": RelaxedResNet, "cnn": RelaxedCNN}[self.network]
        sizes = {"width": self.width, "kernel_size": self.kernel_size}
        model: nn.Module = build(channels, classes, symmetry, **sizes)
        for layer in relaxed_layers(model).values():
            if layer.mode == "partial" and self.data != "mnist6-180":
                nn.init.constant_(layer.fraction, FRACTION)
        return model


def table2(arguments: argparse.Namespace) -> Iterator[Run]:
    """MNIST6-180, which strict rotation symmetry cannot solve."""
    for seed in range(arguments.seeds):
        for mode in arguments.modes:
            epochs = arguments.epochs or 5
            yield Run("table2", "mnist6-180", 4, mode, "rotation", 0.5, None, False, epochs, seed)


def tables13(arguments: argparse.Namespace, rows: list[Row]) -> Iterator[Run]:
    """CIFAR: strict, partial, soft with a fixed omega', soft with a learned one."""
    augmented = {"no": (False,), "yes": (True,), "both": (False, True)}[arguments.augment]
    for seed in range(arguments.seeds):
        for data, augment, n in product(arguments.sets, augmented, arguments.rotations):
            which = "rotation" if n > 1 else "translation"
            fixed = best_omega(rows, data, which, arguments.omega)
            models: list[tuple[str, float, float | None]] = [("strict", 0.0, None)]
            models += [("partial", 0.0, None)] * (n > 1) + [("soft", fixed, None)]
            if arguments.table == 3:
                models += [("soft", arguments.start, penalty) for penalty in arguments.penalties]
            for mode, omega, penalty in models:
                names = {mode} if penalty is None else {mode, "learned"}
                if not names & set(arguments.modes):
                    continue
                rest = (augment, arguments.epochs or 20, seed, arguments.validation)
                run = Run("table3", data, n, mode, which, omega, penalty, *rest)
                rate = RATE if penalty is None else arguments.rate
                yield dataclasses.replace(sized(run, arguments), rate=rate)


def best_omega(rows: list[Row], data: str, which: str, default: float) -> float:
    """The fixed omega' of best validation accuracy among the rows of Figure 4."""
    found: dict[float, list[float]] = {}
    for row in rows:
        if (row["experiment"], row["data"], row["relaxed"]) == ("figure4", data, which):
            found.setdefault(row["omega"], []).append(row["accuracy"])
    found.pop(0.0, None)  # that is the strict network
    return max(found, key=lambda omega: mean(found[omega])) if found else default


def figure4(arguments: argparse.Namespace) -> Iterator[Run]:
    """Accuracy on validation images over a fixed omega', for soft rotation and soft translation."""
    for seed in range(arguments.seeds):
        for data, which, omega in product(arguments.sets, arguments.relax, arguments.frequencies):
            n = arguments.rotations[0] if which == "rotation" else 1
            rest = (None, False, arguments.epochs or 20, seed, True)
            yield sized(Run("figure4", data, n, "soft", which, omega, *rest), arguments)


def sized(run: Run, arguments: argparse.Namespace) -> Run:
    """A run with the sizes of the command line."""
    names = ("network", "width", "kernel_size", "batch_size", "lr")
    return dataclasses.replace(run, **{name: getattr(arguments, name) for name in names})


def quick(arguments: argparse.Namespace) -> Iterator[Run]:
    """Digits and small sprites, less than a minute on one core."""
    small = {"batch_size": 32, "lr": 5e-3}
    for mode in ("strict", "partial", "soft"):
        yield Run("quick", "digits6-180", 4, mode, epochs=11, **small)
    # One network, start and penalty for three tasks: only the second is not symmetric.
    for task, epochs in (("digit", 22), ("turn", 22), ("sprites", 12)):
        yield Run("quick", task, 4, "soft", omega=START, penalty=0.1, epochs=epochs, **small)


def execute(run: Run, arguments: argparse.Namespace) -> Row:
    """Train and measure one model."""
    device = "cuda" if arguments.device != "cpu" and torch.cuda.is_available() else "cpu"
    training, test = images_of(run.data, arguments.data, run.validation, device)
    small = arguments.quick
    classes = int(training[1].max()) + 1
    model = run.model(training[0].shape[1], classes, small)
    parameters = sum(p.numel() for p in model.parameters())
    if arguments.compile:
        model.compile()
    steps = max(1, run.epochs * len(training[0]) // run.batch_size)
    config = TrainConfig(
        steps,
        run.batch_size,
        lr=run.lr,
        seed=run.seed,
        device=arguments.device,
        progress=False,
    ).replace(
        warmup=5 / 300,  # of 300 epochs
        final=1e-6 / run.lr,
        precision="32-true" if small else arguments.precision,
    )
    start = time.perf_counter()
    history = fit_relaxed(
        model,
        *training,
        config,
        penalty=run.penalty or 0.0,
        relaxation_lr=run.rate,
        augment=flip_and_crop if run.augment else None,
    )
    right = accuracy(model, *test)
    turned = invariance_error(model.eval(), lambda k, x: x.rot90(k, (2, 3)), 1, test[0][:200])
    return {
        **dataclasses.asdict(run),
        "accuracy": round(100 * right, 3),
        "parameters": parameters,
        "steps": steps,
        "seconds": round(time.perf_counter() - start, 1),
        "steps_per_second": round(history.steps_per_second, 2),
        "final_loss": round(float(history["loss"][-1]), 5),
        "change_under_quarter_turn": round(turned, 6),
        "relaxation": relaxation(model),
        **({} if run.penalty is None else {"omega_at_step": trace(history)}),
    }


def trace(history: History) -> dict[str, float]:
    """The mean of the layers' learned omega' at some steps of a run."""
    layers = [v for k, v in history.metrics.items() if k.endswith((" rotation", " shift_x"))]
    means = zip(history.step, map(mean, zip(*layers, strict=True)), strict=True)
    return {str(step): round(value, 4) for step, value in means if step in TRACED}


def key(row: Row) -> tuple[object, ...]:
    """What makes two runs the same; a row of an older file has the defaults for what it lacks."""
    return tuple(row.get(field.name, field.default) for field in dataclasses.fields(Run))


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--table", type=int, choices=(1, 2, 3))
    what.add_argument("--figure", type=int, choices=(4,))
    what.add_argument("--quick", action="store_true")
    parser.add_argument("--data", help="folder of the data files")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    parser.add_argument("--epochs", type=int, help="5 for Table 2, else 20")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=["cifar10", "cifar100"])
    parser.add_argument("--rotations", nargs="+", type=int, default=[4, 8])
    parser.add_argument("--penalties", nargs="+", type=float, default=list(LAMBDAS))
    parser.add_argument(
        "--modes",
        nargs="+",
        default=["strict", "partial", "soft"],
        help='"learned" is "soft" without the fixed omega\'',
    )
    parser.add_argument("--omega", type=float, default=0.5, help="fixed omega' without a Figure 4")
    parser.add_argument("--start", type=float, default=START, help="of a learned omega'")
    parser.add_argument("--rate", type=float, default=RATE, help="of it, by that of the weights")
    parser.add_argument(
        "--validation", action="store_true", help="table 3 on a tenth of the training images"
    )
    parser.add_argument("--augment", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--relax", nargs="+", default=["rotation", "translation"])
    parser.add_argument("--frequencies", nargs="+", type=float, default=list(FREQUENCIES))
    parser.add_argument("--network", choices=("resnet", "cnn"), default="resnet")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--kernel-size", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--precision", default="bf16-mixed")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--limit", type=float, help="start no further run after so many seconds")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Do what the command line asks."""
    arguments = parse(words)
    start, out = time.perf_counter(), arguments.out
    stored = json.loads(out.read_text()) if out.exists() else {"rows": []}
    rows = stored["rows"]
    if arguments.quick:
        runs = quick(arguments)
    elif arguments.figure:
        runs = figure4(arguments)
    else:
        runs = table2(arguments) if arguments.table == 2 else tables13(arguments, rows)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    for run in runs:
        if any(key(row) == tuple(dataclasses.asdict(run).values()) for row in rows):
            continue
        if arguments.limit is not None and time.perf_counter() - start > arguments.limit:
            print("stopped at the limit; run the same command to go on")
            break
        row = execute(run, arguments)
        row |= provenance("cuda" if torch.cuda.is_available() else "cpu")
        rows.append(row)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, (json.dumps(stored, indent=1) + "\n").encode())
        name = f"{run.data} C{run.rotations} {run.mode} {run.omega} lambda={run.penalty} {run.seed}"
        print(f"{name}: {row['accuracy']} % in {row['seconds']} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
