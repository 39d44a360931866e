"""The queues of ``gpu_runs.py``: command lines of the papers' scripts, the first things first."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """A command line of a paper's script.

    Args:
        name: of the job, and of the folder that it writes to; one job of a queue has it.
        seconds: that it takes with the GPU for itself.
        script: path in this folder.
        words: arguments; {data}, {here}, {out}, {left} and {minutes} are filled in.
        tiny: arguments that are added for a trial.
        start: results that it adds to, path in this folder.
        goes_on: from its checkpoint in a later call, so that it may begin in less time than it
            takes.
    """

    name: str
    seconds: float
    script: str
    words: str
    tiny: str = ""
    start: str = ""
    goes_on: bool = False


def symmetry(task: str, seed: int, seconds: float) -> Job:
    """The objective of paper 2 as published, at its own length."""
    return Job(
        f"symmetry-{task}-{seed}", seconds, "symmetry-model/run.py",
        f"--task {task} --label paper --added 0 --steps 60000 60000 --first-seed {seed} "
        "--data {data} --out {out}",
        "--steps 3 3 --images 200 --looked-at 20",
    )  # fmt: skip


def joint(*added: int) -> Job:
    """The joint model of paper 3; widths are compared with those at 0 degrees, if that is first."""
    ranges = " ".join(map(str, added))
    return Job(
        f"joint-{ranges.replace(' ', '-')}-0", 80.0 * len(added), "invariant-vae/run.py",
        f"--parts rotation --steps 15000 --added {ranges} --first-seed 0 "
        "--limit {left} --data {data} --out {out}",
        "--digits --steps 2 --images 300",
    )  # fmt: skip


def vae(added: int, size: int) -> Job:
    """A VAE of Figure 9 with the network and steps of AugVAE and of fixed augmentation."""
    return Job(
        f"vae-VAE-{added}-{size}-0", 60.0, "invariant-vae/run.py",
        "--parts figure9 --alike --full-precision --kinds VAE --channels 64 128 256 "
        f"--vae-steps 20000 --rotations {added} --sizes {size} --first-seed 0 "
        "--data {data} --out {out}",
        "--vae-steps 2 --small",
    )  # fmt: skip


def widths(name: str, part: str, seeds: str, seconds: float) -> Job:
    """Tables of paper 0, as many as fit."""
    return Job(
        f"weights-{name}", seconds, "invariant-weights/run.py",
        f"{part} --seeds {seeds} --minutes {{minutes}} --data {{data}} "
        "--out {out}/results.json",
        "--steps 1 --examples 100 --features 16",
        "invariant-weights/results.json",
    )  # fmt: skip


def cifar(
    data: str,
    only: str,
    augment: bool = False,
    words: str = "",
    seconds: float = 65.0,
    rotations: int = 4,
) -> Job:
    """Rows of Table 3 of paper 4 by a recipe, as many as fit; what does not end goes on later."""
    flags = "--augment " * augment + words
    name = f"{data}-{only.replace(' ', '-')}-sharp-{rotations}{'-augmented' * augment}"
    return Job(
        name + (words and "-" + words.strip("-").replace(" ", "-")), seconds,
        "relaxed-equivariance/cifar.py",
        f"--set {data} --recipe sharp --epochs 30 --only {only} --rotations {rotations} "
        f"--seeds 0 {flags} --known {{here}}/relaxed-equivariance/results.json "
        "--budget {left} --data {data} --out {out}/cifar.json",
        "--recipe tiny --epochs 1 --examples 128", goes_on=rotations > 4,
    )  # fmt: skip


START = "'a start of 0.01, blurred' 'a start of 0.01 instead of 0.05'"
OTHERS = "'a start of 0.002, blurred' 'a point estimate' 'a start of 0.002, a third of the steps'"
SCALED = "'features over 32, start and prior of the paper' 'the same, blurred'"
MODES = ("soft", "strict", "partial")
AUGMENTED = tuple(cifar("cifar10", only, True) for only in ("soft", "partial", "strict"))
QUEUES: dict[str, tuple[Job, ...]] = {
    # What the tables lack, by what a second of a GPU brings.
    "rows": (
        widths("start", f"--part start --tags {START}", "0 1 2", 30.0),
        widths("blurred", "--part blurred --tags families", "2", 30.0),
        cifar("cifar10", "t2-strict", True, seconds=20.0),
        widths("exact", "--part identified-exact", "0 1", 40.0),
        widths("blurred-1", "--part blurred", "1 2", 40.0),
        widths("others", f"--part start --tags {OTHERS} {SCALED}", "0", 30.0),
        joint(0, 180),
        vae(0, 50_000),
        vae(0, 12_500),
        vae(180, 12_500),
        AUGMENTED[0],
        vae(0, 25_000),
        cifar("cifar10", "t2-soft", seconds=75.0),
        joint(90),
        *AUGMENTED[1:],
        vae(180, 25_000),
        *(vae(*cell) for cell in ((90, 12_500), (90, 25_000), (45, 50_000), (45, 12_500))),
        joint(15),
        cifar("cifar10", "t2-soft", True, seconds=75.0),
        widths("fixed", "--part long --tags fixed", "1 2", 120.0),
        widths("learned", "--part long --tags learned", "1 2", 90.0),
        *(cifar("cifar10", "t2-learned", words=f"--lambdas {n}") for n in (0.1, 0.01, 1)),
        symmetry("mnist-colour", 0, 150.0),
        symmetry("sprites-affine", 0, 150.0),
    ),
    # Table 3 with 8 rotations, of which one run fills the GPU: two lanes only hide the start.
    "eight": (
        *(cifar("cifar10", mode, seconds=80.0, rotations=8) for mode in MODES),
        cifar("cifar10", "t2-strict", True, seconds=15.0),
        cifar("cifar10", "t2-soft", seconds=60.0),
        AUGMENTED[0],
        cifar("cifar10", "t2-soft", True, seconds=60.0),
        *AUGMENTED[1:],
    ),
    "cifar100": (
        cifar("cifar100", "t2-soft", seconds=75.0),
        cifar("cifar100", "t2-strict", True, seconds=45.0),
        *(cifar("cifar100", only, True) for only in ("partial", "strict")),
        cifar("cifar100", "t2-soft", True, seconds=75.0),
    ),
}
