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
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.data import digits, load, mnist, upside_down_sixes
from symmetries.groups import Cyclic
from symmetries.learners.relaxed import accuracy, fit
from symmetries.nn.relaxation import relaxation
from symmetries.nn.relaxed_networks import RelaxedCNN, RelaxedResNet, Symmetry
from symmetries.testing import invariance_error
from symmetries.training import Step, TrainConfig

HERE = Path(__file__).parent
LAMBDAS = (0.001, 0.1, 0.5, 1.0, 5.0)
FREQUENCIES = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)


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

    def model(self, channels: int, classes: int, small: bool) -> nn.Module:
        """The network, with weights from the seed."""
        torch.manual_seed(self.seed)
        relax = {self.relaxed: self.omega} if self.mode == "soft" else None
        learn = self.mode == "partial" or self.penalty is not None
        symmetry = Symmetry(Cyclic(self.rotations), self.mode, relax, learn)
        if small:
            symmetry = dataclasses.replace(symmetry, options={"hidden": 16, "features": 16})
            return RelaxedCNN(channels, classes, symmetry, width=4, kernel_size=3)
        return RelaxedResNet(channels, classes, symmetry)


def table2(arguments: argparse.Namespace) -> Iterator[Run]:
    """MNIST6-180, which strict rotation symmetry cannot solve."""
    for seed in range(arguments.seeds):
        for mode in ("strict", "partial", "soft"):
            epochs = arguments.epochs or 5
            yield Run("table2", "mnist6-180", 4, mode, "rotation", 0.5, None, False, epochs, seed)


def tables13(arguments: argparse.Namespace) -> Iterator[Run]:
    """CIFAR: strict, partial, soft with a fixed omega', soft with a learned one."""
    epochs = arguments.epochs or 20
    for seed in range(arguments.seeds):
        for data in arguments.sets:
            for augment in {"no": (False,), "yes": (True,), "both": (False, True)}[
                arguments.augment
            ]:
                for n in arguments.rotations:
                    which = "rotation" if n > 1 else "translation"
                    rest = (augment, epochs, seed)
                    modes: list[tuple[str, float | None]] = [("strict", None), ("soft", None)]
                    modes += [("partial", None)] * (n > 1)
                    if arguments.table == 3:
                        modes += [("soft", penalty) for penalty in arguments.penalties]
                    for mode, penalty in modes:
                        yield Run("table3", data, n, mode, which, arguments.omega, penalty, *rest)


def figure4(arguments: argparse.Namespace) -> Iterator[Run]:
    """Accuracy on validation images over a fixed omega', for soft rotation and soft translation."""
    epochs = arguments.epochs or 20
    for seed in range(arguments.seeds):
        for data in arguments.sets:
            for which, n in (("rotation", 4), ("translation", 1)):
                for omega in FREQUENCIES:
                    rest = (None, False, epochs, seed, True)
                    yield Run("figure4", data, n, "soft", which, omega, *rest)


def quick(arguments: argparse.Namespace) -> Iterator[Run]:
    """Digits and small sprites, less than a minute on one core."""
    for mode in ("strict", "partial", "soft"):
        yield Run("quick", "digits6-180", 4, mode, epochs=11)
    yield Run("quick", "sprites", 4, "soft", penalty=0.5, epochs=6)


def images_of(run: Run, folder: str | None) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Training and evaluation images with their labels, standardised by channel."""
    splits = []
    for split in ("train", "test"):
        if run.data == "mnist6-180":
            data = upside_down_sixes(mnist(split, folder), split)
        elif run.data == "digits6-180":
            data = upside_down_sixes(digits(split), split, pairs=True)
        else:
            data = load(run.data, split, folder)
        images, labels = data.images, data.labels
        if labels is None:
            raise SystemExit(f"{run.data} has no labels")
        if run.data == "sprites":  # small and few; is the sprite a large one?
            images = F.avg_pool2d(images[:800], 2)
            area = images.mean((1, 2, 3))
            labels = (area > area.median()).long()
        splits.append((images, labels))
    (images, labels), test = splits
    if run.validation:
        cut = len(images) * 9 // 10
        test = (images[cut:], labels[cut:])
        images, labels = images[:cut], labels[:cut]
    deviation, mean = torch.std_mean(images, (0, 2, 3), keepdim=True)
    return ((images - mean) / deviation, labels), ((test[0] - mean) / deviation, test[1])


def flip_and_crop(images: Tensor, step: Step) -> Tensor:
    """Left and right swapped in half of the images; each moved by up to four pixels."""
    n, _, height, width = images.shape
    draws = step.rand(n, 3)
    images = torch.where(draws[:, 0, None, None, None] < 0.5, images.flip(-1), images)
    start = (draws[:, 1:] * 9).long()
    rows = start[:, 0, None] + torch.arange(height, device=images.device)
    columns = start[:, 1, None] + torch.arange(width, device=images.device)
    sample = torch.arange(n, device=images.device)[:, None, None]
    cropped = F.pad(images, (4, 4, 4, 4))[sample, :, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)


def execute(run: Run, arguments: argparse.Namespace) -> dict[str, object]:
    """Train and measure one model."""
    training, test = images_of(run, arguments.data)
    small = arguments.quick
    classes = int(training[1].max()) + 1
    model = run.model(training[0].shape[1], classes, small)
    parameters = sum(p.numel() for p in model.parameters())
    if arguments.compile:
        model.compile()
    batch = 32 if small else arguments.batch_size
    steps = max(1, run.epochs * len(training[0]) // batch)
    config = TrainConfig(
        steps,
        batch,
        lr=5e-3 if small else 1e-3,
        warmup=steps // 60,  # 5 of 300 epochs
        final_lr=1e-6,
        seed=run.seed,
        device=arguments.device,
        precision="32-true" if small else arguments.precision,
        progress=False,
    )
    start = time.perf_counter()
    history = fit(
        model,
        *training,
        config,
        penalty=run.penalty or 0.0,
        relaxation_lr=4.0 if small else 1.0,
        augment=flip_and_crop if run.augment else None,
    )
    right = accuracy(model, *test)
    device = next(model.parameters()).device
    some = test[0][:200].to(device)
    turned = invariance_error(model.eval(), lambda k, x: x.rot90(k, (2, 3)), 1, some)
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
    }


def key(row: dict[str, object]) -> tuple[object, ...]:
    """What makes two runs the same."""
    return tuple(row[field.name] for field in dataclasses.fields(Run))


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
    parser.add_argument("--omega", type=float, default=0.5, help="omega' fixed, or at the start")
    parser.add_argument("--augment", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--precision", default="bf16-mixed")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--limit", type=float, help="start no further run after so many seconds")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Do what the command line asks."""
    arguments = parse(words)
    if arguments.quick:
        runs = quick(arguments)
    elif arguments.figure:
        runs = figure4(arguments)
    else:
        runs = table2(arguments) if arguments.table == 2 else tables13(arguments)
    start, out = time.perf_counter(), arguments.out
    rows = json.loads(out.read_text())["rows"] if out.exists() else []
    torch.set_float32_matmul_precision("high")
    for run in runs:
        if any(key(row) == tuple(dataclasses.asdict(run).values()) for row in rows):
            continue
        if arguments.limit is not None and time.perf_counter() - start > arguments.limit:
            print("stopped at the limit; run the same command to go on")
            break
        row = execute(run, arguments)
        cuda = torch.cuda.is_available()
        row["device"] = torch.cuda.get_device_name() if cuda else "cpu"
        row["torch"] = torch.__version__
        rows.append(row)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
        name = f"{run.data} C{run.rotations} {run.mode} lambda={run.penalty} seed={run.seed}"
        print(f"{name}: {row['accuracy']} % in {row['seconds']} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
