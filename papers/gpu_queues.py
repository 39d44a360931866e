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


def joint(seed: int, added: str, seconds: float) -> Job:
    """The joint model of paper 3 with 15,000 steps; widths are compared with those at 0 degrees."""
    return Job(
        f"joint-{seed}", seconds, "invariant-vae/run.py",
        f"--parts rotation --added {added} --first-seed {seed} "
        "--limit {left} --data {data} --out {out}",
        "--digits --steps 2 --images 300",
    )  # fmt: skip


def vae(added: int, size: int, seed: int = 0) -> Job:
    """A VAE of Figure 9 with the networks and steps of AugVAE and of fixed augmentation."""
    return Job(
        f"vae-{added}-{size}-{seed}", 50.0, "invariant-vae/run.py",
        "--parts figure9 --alike --full-precision --kinds VAE --channels 64 128 256 "
        f"--vae-steps 20000 --rotations {added} --sizes {size} --first-seed {seed} "
        "--data {data} --out {out}",
        "--vae-steps 2 --small",
    )  # fmt: skip


def widths(name: str, part: str, seeds: str, seconds: float = 60.0) -> Job:
    """Tables of paper 0, as many as fit."""
    return Job(
        f"weights-{name}", seconds, "invariant-weights/run.py",
        f"--part {part} --seeds {seeds} --minutes {{minutes}} --data {{data}} "
        "--out {out}/results.json",
        "--steps 1 --examples 100 --features 16",
        "invariant-weights/results.json",
    )  # fmt: skip


def cifar(data: str, only: str, rotations: int, augment: bool, words: str = "") -> Job:
    """Rows of Table 3 of paper 4 by the short recipe, as many as fit."""
    flags = "--augment " * augment + words
    name = f"{data}-{only.split()[0]}-{rotations}{'-augmented' * augment}"
    return Job(
        name, 40.0, "relaxed-equivariance/cifar.py",
        f"--set {data} --recipe pooled --epochs 12 --only {only} --rotations {rotations} "
        f"--seeds 0 {flags} --known {{here}}/relaxed-equivariance/results.json "
        "--budget {left} --data {data} --out {out}/cifar.json",
        "--recipe tiny --epochs 1 --examples 128",
    )  # fmt: skip


SALIENCY = Job(
    "genuine-figures", 60.0, "genuine-invariance/run.py",
    "--parts figures --quiet --folder {data} --out {out}",
    "--steps 80 --check-every 40 --examples 40 --drift-examples 60 --feature-examples 40 "
    "--ig-steps 2 --seeds 0 1 --batch-size 64",
)  # fmt: skip
SETS = ("cifar100", "cifar10")
QUEUES: dict[str, tuple[tuple[Job, ...], ...]] = {
    "rows": (
        (symmetry("mnist-affine", 0, 300.0),),
        (joint(0, "0 180 45 90 15", 200.0),),
        (
            widths("blurred", "blurred", "0"),
            widths("long", "long --tags 'crossed families'", "0", 300.0),
        ),
        (
            *(cifar(data, "t2-soft", 1, False) for data in SETS),
            *(cifar(data, "t2-soft t2-strict", 1, True) for data in SETS),
            *(cifar("cifar10", "learned", 4, more, "--lambdas 0.01") for more in (False, True)),
            cifar("cifar100", "learned", 4, True, "--lambdas 0.01"),
        ),
        (SALIENCY, *(cifar(data, "t2-learned", 1, False) for data in SETS)),
    ),
    "more": (
        tuple(symmetry("mnist-affine", seed, 300.0) for seed in (1, 2)),
        tuple(vae(added, size) for size in (50_000, 12_500) for added in (180, 0)),
        tuple(cifar(data, "t2-learned", 1, True) for data in SETS),
        tuple(
            cifar(data, "soft strict partial", 8, more) for more in (False, True) for data in SETS
        ),
    ),
}
