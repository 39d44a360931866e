"""The queues of ``gpu_runs.py``: command lines of the papers' scripts, in lanes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """A command line of a paper's script.

    Args:
        name: of the job, and of the folder that it writes to.
        seconds: that it is expected to take, at least.
        script: path in this folder.
        words: arguments; {data}, {here}, {out}, {left} and {minutes} are filled in.
        tiny: arguments that are added for a trial.
        start: results that it adds to, path in this folder.
    """

    name: str
    seconds: float
    script: str
    words: str
    tiny: str = ""
    start: str = ""


def symmetry(task: str, seed: int, seconds: float, steps: str = "60000 60000") -> Job:
    """The objective of paper 2 as published, at its own length."""
    return Job(
        f"symmetry-{task}-{seed}", seconds, "symmetry-model/run.py",
        f"--task {task} --label paper --added 0 --steps {steps} --first-seed {seed} "
        "--data {data} --out {out}",
        "--steps 3 3 --images 200 --looked-at 20",
    )  # fmt: skip


def pictured(task: str, added: int, seed: int) -> Job:
    """A short run of our objective, for the figures of paper 2."""
    return Job(
        f"pictured-{task}-{added}-{seed}", 20.0, "symmetry-model/run.py",
        f"--task {task} --added {added} --steps 2500 1500 --first-seed {seed} "
        "--data {data} --out {out}",
        "--steps 3 3 --images 200 --looked-at 20",
    )  # fmt: skip


def printed(steps: int) -> Job:
    """The first stage of paper 2's objective with equation 7 as it is printed."""
    return Job(
        "printed", 40.0, "symmetry-model/run.py",
        f"--ablations --only 'paper, equation 7 as printed' --steps {steps} 2 --seeds 3 "
        "--data {data} --out {out}",
        "--steps 3 3 --images 200 --looked-at 20 --seeds 1",
    )  # fmt: skip


def joint(added: str, seconds: float, seed: int = 0, steps: int = 15_000, words: str = "") -> Job:
    """The joint model of paper 3; widths are compared with those at 0 degrees."""
    return Job(
        f"joint-{seed}", seconds, "invariant-vae/run.py",
        f"--parts rotation --steps {steps} --added {added} --first-seed {seed} {words} "
        "--limit {left} --data {data} --out {out}",
        "--digits --steps 2 --images 300",
    )  # fmt: skip


def conjectures(steps: int, seconds: float) -> Job:
    """The three conjectures of paper 3, each with and without."""
    return Job(
        f"conjectures-{steps}", seconds, "invariant-vae/run.py",
        f"--parts ablations --short {steps} --data {{data}} --out {{out}}",
        "--short 2 --digits",
    )  # fmt: skip


def vaes(added: int, size: int, seed: int = 0, kind: str = "VAE") -> Job:
    """VAEs of Figure 9 with the networks and steps of AugVAE and of fixed augmentation."""
    return Job(
        "vaes", 60.0, "invariant-vae/run.py",
        f"--parts figure9 --alike --full-precision --kinds {kind} --channels 64 128 256 "
        f"--vae-steps 20000 --rotations {added} --sizes {size} --first-seed {seed} "
        "--data {data} --out {out}",
        "--vae-steps 2 --small",
    )  # fmt: skip


def widths(name: str, part: str, seeds: str, seconds: float = 60.0) -> Job:
    """Tables of paper 0, as many as fit."""
    return Job(
        f"weights-{name}", seconds, "invariant-weights/run.py",
        f"{part} --seeds {seeds} --minutes {{minutes}} --data {{data}} "
        "--out {out}/results.json",
        "--steps 1 --examples 100 --features 16",
        "invariant-weights/results.json",
    )  # fmt: skip


def cifar(
    data: str, only: str, augment: bool = False, words: str = "", recipe: str = "sharp",
    epochs: int = 30, rotations: int = 4, seeds: str = "0",
) -> Job:  # fmt: skip
    """Rows of Table 3 of paper 4 by a recipe, as many as fit; what does not end goes on later."""
    flags = "--augment " * augment + words
    name = f"{data}-{only.replace(' ', '-')}-{recipe}-{rotations}{'-augmented' * augment}"
    return Job(
        name + (words and "-" + words.strip("-").replace(" ", "-")), 40.0,
        "relaxed-equivariance/cifar.py",
        f"--set {data} --recipe {recipe} --epochs {epochs} --only {only} --rotations {rotations} "
        f"--seeds {seeds} {flags} --known {{here}}/relaxed-equivariance/results.json "
        "--budget {left} --data {data} --out {out}/cifar.json",
        "--recipe tiny --epochs 1 --examples 128",
    )  # fmt: skip


PLAIN = "--network cnn --kernel-size 5 --batch-size 256 --lr 2e-3 --epochs 6 --data {data} "
PLAIN += "--out {out}/results.json"


def plain(name: str, words: str) -> Job:
    """Runs of the plain network of paper 4 with 6 epochs."""
    small = "--width 2 --batch-size 20000 --epochs 1 --seeds 1"
    return Job(name, 20.0, "relaxed-equivariance/run.py", f"{words} {PLAIN}", small)


def tenth(sets: str, augment: str, rotations: int, start: float, seeds: int) -> Job:
    """The lambda that the grids of the plain network lack."""
    words = f"--table 3 --modes learned --penalties 0.01 --sets {sets} --augment {augment} "
    words += f"--rotations {rotations} --start {start} --rate 4 --seeds {seeds}"
    return plain(f"tenth-{sets.replace(' ', '-')}-{rotations}", words)


def trial(only: str, recipe: str, epochs: int, augment: bool = False) -> Job:
    """A recipe for T(2), on held-out images of CIFAR-100."""
    return cifar("cifar100", only, augment, "--validation", recipe, epochs, 1)


SALIENCY = Job(
    "genuine-figures", 60.0, "genuine-invariance/run.py",
    "--parts figures --quiet --folder {data} --out {out}",
    "--steps 80 --check-every 40 --examples 40 --drift-examples 60 --feature-examples 40 "
    "--ig-steps 2 --seeds 0 1 --batch-size 64",
)  # fmt: skip
SETS = ("cifar100", "cifar10")
# One lane each: a machine that is shared runs as many of them beside each other as it has room for.
QUEUES: dict[str, tuple[tuple[Job, ...], ...]] = {
    "start": ((widths("start", "--part start", "0 1 2", 60.0),),),
    "blurred": (
        (
            widths("blurred", "--part blurred --tags families", "2", 60.0),
            widths("blurred", "--part identified-finer", "2", 60.0),
            widths("blurred", "--part blurred", "1 2", 60.0),
        ),
    ),
    "vaes": (tuple(vaes(added, size) for size in (50_000, 12_500) for added in (0, 180)),),
    "joint": ((joint("180", 200.0), joint("90", 200.0)),),
    "table5-learned": ((widths("learned", "--part long --tags learned", "1 2", 90.0),),),
    "table5-fixed": ((widths("fixed", "--part long --tags fixed", "1 2", 90.0),),),
}
