"""Tables 1 and 3 on CIFAR by a short recipe: a residual network of group convolutions, 30 epochs.

The network is the baseline's (a lifting, two residual blocks, a last convolution, the maximum over
group and space) with smaller kernels, or fields of half the size after the lifting, and dropout of
fields; the schedule is one cycle. Which recipe is taken is decided on the last tenth of the
training images (--choose, the strict network), before any test image is seen. Every run is a row,
written as soon as it is done; a run that was stopped goes on from its last checkpoint, runs that
are there are not repeated.

    python papers/relaxed-equivariance/cifar.py --data DATA --set cifar10 --choose --budget 250
    python papers/relaxed-equivariance/cifar.py --data DATA --set cifar100 --recipe sharp
"""

import argparse
import dataclasses
import json
import math
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))

from image_sets import flip_and_crop, images_of

from symmetries._utils.provenance import provenance
from symmetries.groups import Cyclic
from symmetries.learners.relaxed import accuracy
from symmetries.nn.relaxation import relaxation, relaxation_penalty, relaxed_layers
from symmetries.nn.relaxed_networks import RelaxedResNet, Symmetry
from symmetries.testing import invariance_error
from symmetries.training import Step, TrainConfig, train
from symmetries.training.atomic_files import write_atomic

HERE = Path(__file__).parent
FRACTION, RATE = 0.9, 4.0  # start of the partial fractions, and their learning rate
OMEGA = {"rotation": 0.5, "translation": 0.25}  # fixed omega': the best of Figure 4
SETS = ("cifar10", "cifar100", "cifar10-packed", "cifar100-packed")
LAMBDAS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0)


@dataclass(frozen=True)
class Recipe:
    """A network and how it is trained.

    Args:
        kernel_size: of all layers but the pointwise ones.
        width: fields of the lifting.
        pool_first: whether fields have half the size after the lifting.
        last_kernel: of the last convolution.
        dropout: of fields.
        smoothing: of the labels.
        weight_decay: decoupled, of all weights but omega' and fractions.
        lr: at the top of its cycle.
        rise: share of the steps until then.
        batch_size: images per step.
    """

    kernel_size: int = 5
    width: int = 32
    pool_first: bool = True
    last_kernel: int = 4
    dropout: float = 0.2
    smoothing: float = 0.1
    weight_decay: float = 0.01
    lr: float = 3e-3
    rise: float = 0.2
    batch_size: int = 256


RECIPES = {
    "pooled": Recipe(),
    "plain": Recipe(dropout=0.0, smoothing=0.0, weight_decay=0.0),
    "sharp": Recipe(kernel_size=3, pool_first=False, last_kernel=8),
    "light": Recipe(kernel_size=3, pool_first=False, last_kernel=8, dropout=0.0),
    "wide": Recipe(width=48, dropout=0.3),
    "tiny": Recipe(width=4, batch_size=64),  # for a trial
    "baseline": Recipe(7, 32, False, 7, 0.0, 0.0, 0.0, 1e-3, 1 / 60, 256),
}
CANDIDATES = ("pooled", "plain", "sharp")


@dataclass(frozen=True)
class Run:
    """One trained model: a row of Table 1 or 3."""

    data: str
    rotations: int
    mode: str
    omega: float = 0.0
    penalty: float | None = None
    augment: bool = False
    epochs: int = 30
    seed: int = 0
    validation: bool = False
    recipe: str = "pooled"

    @property
    def relaxed(self) -> str:
        """The subgroup that is soft."""
        return "rotation" if self.rotations > 1 else "translation"

    @property
    def name(self) -> str:
        """For messages and folders."""
        penalty = "" if self.penalty is None else f"-lambda{self.penalty:g}"
        parts = (self.data, f"c{self.rotations}", f"{self.mode}{penalty}", self.recipe)
        flags = "-augmented" * self.augment + "-validation" * self.validation
        return "-".join(parts) + f"-{self.epochs}{flags}-{self.seed}"


def network(run: Run, recipe: Recipe, channels: int, classes: int) -> nn.Module:
    """The network, with weights from the seed."""
    torch.manual_seed(run.seed)
    relax = {run.relaxed: run.omega} if run.mode == "soft" else None
    learn = run.mode == "partial" or run.penalty is not None
    # By a table of filters: "auto" would compile a kernel for the last layer alone.
    symmetry = Symmetry(Cyclic(run.rotations), run.mode, relax, learn, {"order": "table"})
    names = ("width", "kernel_size", "last_kernel", "pool_first", "dropout")
    sizes = {name: getattr(recipe, name) for name in names}
    model = RelaxedResNet(channels, classes, symmetry, **sizes)
    for layer in relaxed_layers(model).values():
        if layer.mode == "partial":
            nn.init.constant_(layer.fraction, FRACTION)
    return model


def execute(run: Run, recipe: Recipe, arguments: argparse.Namespace, end: float) -> dict[str, Any]:
    """Train and measure one model; goes on from a checkpoint if there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    training, test = images_of(run.data, arguments.data, run.validation, device)
    if arguments.examples:
        training, test = (tuple(t[: arguments.examples] for t in p) for p in (training, test))
    classes = 100 if run.data.startswith("cifar100") else 10
    model = network(run, recipe, training[0].shape[1], classes)
    steps = max(1, run.epochs * len(training[0]) // recipe.batch_size)
    folder = arguments.out.parent / "checkpoints" / run.name
    config = TrainConfig(
        steps, recipe.batch_size, lr=recipe.lr, seed=run.seed, progress=False, out=folder,
        resume=(folder / "checkpoint.json").exists(),
    ).replace(
        algorithm="adamw", warmup=recipe.rise, weight_decay=recipe.weight_decay, betas=(0.9, 0.99),
        precision="bf16-mixed" if device == "cuda" else "32-true",
        checkpoint_every=2000, log_every=200,
    )  # fmt: skip

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
        images, labels = batch
        images = flip_and_crop(images, step) if run.augment else images
        logits = model(images).float()
        fit = F.cross_entropy(logits, labels, label_smoothing=recipe.smoothing)
        right = (logits.argmax(1) == labels).float().mean()
        penalty = (run.penalty or 0.0) * relaxation_penalty(model)
        return {"loss": fit + penalty, "cross_entropy": fit, "accuracy": right}

    def look(step: Step, metrics: object) -> None:
        if time.perf_counter() > end:
            raise KeyboardInterrupt  # train writes a checkpoint and stops

    learned = [
        p for n, p in model.named_parameters() if n.endswith(("relaxed_frequency", "fraction"))
    ]
    own = {id(p) for p in learned}
    groups = [{"params": [p for p in model.parameters() if id(p) not in own]}]
    if learned:
        rate = RATE if run.penalty is None else 1.0
        groups.append({"params": learned, "lr_multiplier": rate, "weight_decay": 0.0})
    began = time.perf_counter()
    history = train(model, loss, training, config, param_groups=groups, on_step=look)
    seconds = time.perf_counter() - began
    right = accuracy(model, *test)
    turned = invariance_error(model.eval(), lambda k, x: x.rot90(k, (2, 3)), 1, test[0][:200])
    return {
        **dataclasses.asdict(run),
        "relaxed": run.relaxed,
        "settings": dataclasses.asdict(recipe),
        "accuracy": round(100 * right, 3),
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": steps,
        "seconds": round(seconds, 1),
        "steps_per_second": round(history.steps_per_second, 2),
        "final_loss": round(float(history["cross_entropy"][-1]), 5),
        "training_accuracy": round(100 * float(history["accuracy"][-1]), 2),
        "change_under_quarter_turn": round(turned, 6),
        "relaxation": relaxation(model),
    }


def models(
    names: list[str], rotations: int, lambdas: Sequence[float] = LAMBDAS
) -> Iterator[tuple[int, str, float, float | None]]:
    """Rotations, mode, omega' and lambda of rows by name."""
    soft = OMEGA["rotation"]
    known = {
        "strict": (rotations, "strict", 0.0, None),
        "partial": (rotations, "partial", 0.0, None),
        "soft": (rotations, "soft", soft, None),
        "t2-strict": (1, "strict", 0.0, None),
        "t2-soft": (1, "soft", OMEGA["translation"], None),
    }
    learned = {"learned": "soft", "t2-learned": "t2-soft"}
    for name in names:
        if name in learned:
            n, mode, omega, _ = known[learned[name]]
            yield from ((n, mode, omega, penalty) for penalty in lambdas)
        else:
            yield known[name]


def planned(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> Iterator[Run]:
    """The runs, in order: choices first, then the tables, seed by seed."""
    rest = {"augment": arguments.augment, "epochs": arguments.epochs}
    if arguments.choose:
        for name in arguments.candidates:
            short = {"epochs": arguments.choose_epochs, "validation": True, "recipe": name}
            yield Run(arguments.set, arguments.rotations, "strict", **short)
    for seed in arguments.seeds:
        for n, mode, omega, penalty in models(
            arguments.only, arguments.rotations, arguments.lambdas
        ):
            recipe = arguments.recipe or chosen(rows)
            yield Run(
                arguments.set, n, mode, omega, penalty, seed=seed, recipe=recipe,
                validation=arguments.validation, **rest,
            )  # fmt: skip


def chosen(rows: list[dict[str, Any]]) -> str:
    """The recipe of best accuracy on held-out training images."""
    tried = [r for r in rows if r["validation"] and r["mode"] == "strict" and r["rotations"] > 1]
    if not tried:
        raise SystemExit("no recipe: give --recipe, or --choose one on held-out images")
    return str(max(tried, key=lambda row: row["accuracy"])["recipe"])


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", help="folder of the data files")
    parser.add_argument("--set", default="cifar10", choices=SETS)
    parser.add_argument("--out", type=Path, default=HERE / "cifar.json")
    parser.add_argument("--known", type=Path, help="results.json whose runs are not repeated")
    parser.add_argument("--choose", action="store_true", help="choose a recipe first")
    parser.add_argument("--candidates", nargs="+", default=CANDIDATES, choices=RECIPES)
    parser.add_argument("--choose-epochs", type=int, default=12)
    parser.add_argument("--recipe", choices=RECIPES, help="instead of the chosen one")
    names = ["strict", "partial", "soft", "t2-strict", "t2-soft", "learned", "t2-learned"]
    parser.add_argument("--only", nargs="*", default=names[:-2], choices=names)
    parser.add_argument("--lambdas", type=float, nargs="+", default=LAMBDAS, help="of learned rows")
    parser.add_argument("--rotations", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--augment", action="store_true")
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("--examples", type=int, help="only so many images, for a trial")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds for everything")
    return parser.parse_args()


def main() -> None:
    """Train what is missing until the budget is spent."""
    arguments = parse()
    began, out = time.perf_counter(), arguments.out
    end = began + arguments.budget
    stored = json.loads(out.read_text()) if out.exists() else {"rows": []}
    rows = stored["rows"]
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 4
    torch.set_float32_matmul_precision("high")
    known = json.loads(arguments.known.read_text())["cifar"]["rows"] if arguments.known else []
    taken: dict[tuple[str, int, str], float] = {}  # seconds of the last run of a kind
    for run in planned(arguments, rows):
        mine = dataclasses.asdict(run)
        if any(all(row[name] == value for name, value in mine.items()) for row in [*rows, *known]):
            continue
        kind, left = (run.mode, run.rotations, run.recipe), end - time.perf_counter()
        if left < 0.9 * taken.get(kind, 0.0) * run.epochs:
            print(f"no time for {run.name}", flush=True)
            continue
        start = time.perf_counter()
        try:
            row = execute(run, RECIPES[run.recipe], arguments, end)
        except KeyboardInterrupt:
            raise SystemExit(f"stopped: {run.name}; the same command goes on") from None
        wall = time.perf_counter() - start
        taken[kind] = row["seconds"] / run.epochs
        made = provenance("cuda" if torch.cuda.is_available() else "cpu")
        made["command"] = re.sub(r" --(out|data) \S+", "", made["command"])  # of one machine
        rows.append(row | {"wall": round(wall, 1)} | made)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, (json.dumps(stored, indent=1) + "\n").encode())
        pace = f"{row['seconds']} s ({wall:.0f} in all), {row['steps_per_second']} steps/s"
        print(f"{run.name}: {row['accuracy']} %, {pace}", flush=True)


if __name__ == "__main__":
    main()
