"""The library's training steps at the papers' sizes, as jobs of its training loop."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from symmetry_step import GROUP
from torch import Tensor, nn

from symmetries.training import TrainConfig
from symmetries.training.ensemble import Ensemble, TrainJob
from symmetries.training.fabric import make_fabric, place
from symmetries.training.graph import GraphedUpdate, wants_graph
from symmetries.training.matmul_precision import use_matmul_precision
from symmetries.training.optim import build_optimizer, lr_factor, set_lr
from symmetries.training.source import join_batches, make_batches
from symmetries.training.step import Step, Steps
from symmetries.training.update import Objective, Update

LONG = 10**6  # steps that a run is told it has: rates and weights stay near their start
Jobs = Callable[[], list[TrainJob]]


@dataclass(frozen=True)
class Sizes:
    """Of all steps; a dry run has small ones.

    Args:
        device: of the run.
        dry: whether only to try all cells.
    """

    device: str
    dry: bool

    def of(self, usual: int, dry: int) -> int:
        """A size."""
        return dry if self.dry else usual

    def run(self) -> dict[str, Any]:
        """What all runs are told."""
        return {"device": self.device, "progress": False, "log_every": LONG}

    def images(self, count: int, channels: int, side: int) -> Tensor:
        """Random ones, on the CPU."""
        generator = torch.Generator().manual_seed(0)
        return torch.rand(count, channels, side, side, generator=generator)


def symmetry(
    sizes: Sizes, preset: str, stage: str, products: str | None = None, models: int = 1
) -> Jobs:
    """A stage of the symmetry model; the group and the images' size are the paper's for MNIST."""
    from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel

    config = told = SymmetryConfig.preset(preset)
    if sizes.dry:
        same = {"interpolation": told.interpolation, "holdout": told.holdout}
        same |= {"angles": told.network.angles, "moments": told.network.moments}
        same |= {"circular": told.flow.circular, "alignment": told.objective.alignment}
        same |= {"idempotence": told.objective.fixed_points.idempotence}
        same |= {"prototype_noise": told.objective.prototype_noise}
        config = SymmetryConfig.preset("quick").replace(**same)
    if products is not None:
        config = config.replace(matmul_precision=products)
    batch = {"batch_size": 16} if sizes.dry else {}
    length = {"steps": LONG, **batch}
    config = config.replace(inference=length, generative=length)
    images = sizes.images(sizes.of(8192, 64), 1, sizes.of(28, 12))

    def jobs() -> list[TrainJob]:
        made = []
        for seed in range(models):
            model = SymmetryModel(GROUP, tuple(images.shape[1:]), config, seed=seed)
            made.append(next(model.train_jobs(images, stages=(stage,), **sizes.run())))
        return made

    return jobs


def invariant_weights(sizes: Sizes, kind: str, runs: int = 1) -> Jobs:
    """Invariance learned by the evidence: 1,024 units, S = 32, batch 128, full covariance."""
    import invariant_step_cuda as source

    images, labels = _labelled(sizes)

    def jobs() -> list[TrainJob]:
        return [_caught(source, lambda: source.library(images, labels, kind, runs, LONG))]

    return _small(sizes, jobs)


def natural(sizes: Sizes, runs: int) -> Jobs:
    """Natural-gradient steps of the last layer, batches of all images."""
    import invariant_step_cuda as source

    from symmetries.learners.invariant_weights import natural as learner

    images, labels = _labelled(sizes)

    def jobs() -> list[TrainJob]:
        few = sizes.of(runs, 2)
        job = _caught(learner, lambda: source.natural(images, labels, few, 3000))
        job.model.log_noise.requires_grad_()  # as while it trains: the loop wants a gradient
        return [job]

    return _small(sizes, jobs)


def relaxed(sizes: Sizes, mode: str, rotations: int, precision: str, matmul: str | None) -> Jobs:
    """The residual network for CIFAR, of the paper's width, kernel size and batch.

    Args:
        sizes: of the run.
        mode: "strict", "partial", "soft"; with one rotation "soft" relaxes translations, T(2).
        rotations: of the group.
        precision: of the run; the paper's is "bf16-mixed".
        matmul: how exact products in float32 are; None leaves torch's default.
    """
    from symmetries.groups import Cyclic
    from symmetries.learners.relaxed import train_jobs
    from symmetries.nn.relaxed_networks import RelaxedResNet, Symmetry

    count, side = sizes.of(2048, 16), sizes.of(32, 8)
    images, labels = sizes.images(count, 3, side), torch.arange(count) % 10
    relax = {"rotation" if rotations > 1 else "translation": 0.5} if mode == "soft" else None
    small = {"width": 4, "kernel_size": 3, "last_kernel": 2} if sizes.dry else {}

    def jobs() -> list[TrainJob]:
        torch.manual_seed(0)
        model = RelaxedResNet(3, 10, Symmetry(Cyclic(rotations), mode, relax), **small)
        batch = sizes.of(64, 4)
        config = TrainConfig(LONG, batch).replace(precision=precision, **sizes.run())
        job = next(train_jobs(model, images, labels, config, penalty=0.1 if relax else 0.0))
        return [job if matmul is None else replace(job, products=matmul)]

    return jobs


def vae(sizes: Sizes, augmented: bool = False) -> Jobs:
    """The VAE, which is also the step of InvVAE (on prototypes); or that of AugVAE."""
    from symmetries.learners.symmetry_model import SymmetryModel
    from symmetries.learners.vae import VAE, VAEConfig

    config = VAEConfig.preset("quick" if sizes.dry else "paper").replace(steps=LONG)
    images = sizes.images(sizes.of(4096, 128), 1, sizes.of(28, 8))
    shape = (1, *images.shape[2:])

    def jobs() -> list[TrainJob]:
        augment = None
        if augmented:
            symmetry_model = SymmetryModel(GROUP, shape, "quick" if sizes.dry else "paper")
            augment = symmetry_model.to(sizes.device).augment
        return [next(VAE(shape, config).train_jobs(images, augment=augment, **sizes.run()))]

    return jobs


def invariant_vae(sizes: Sizes) -> Jobs:
    """The invariant VAE, all networks at once."""
    from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig

    config = InvariantVAEConfig.preset("quick" if sizes.dry else "paper").replace(steps=LONG)
    config = config.replace(batch_size=8) if sizes.dry else config
    images = sizes.images(sizes.of(4096, 64), 1, sizes.of(28, 8))
    shape = (1, *images.shape[2:])
    return lambda: [next(InvariantVAE("rotation", shape, config).train_jobs(images, **sizes.run()))]


def penalties(sizes: Sizes) -> Jobs:
    """Paper 1's perceptron with the penalty on the invariance error."""
    from symmetries.groups import Cyclic
    from symmetries.learners.penalties import regularised_loss

    count = sizes.of(4096, 64)
    images, labels = sizes.images(count, 1, 28), torch.arange(count) % 9

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
        return regularised_loss(model, *batch, Cyclic(4), nu=1.0)

    def jobs() -> list[TrainJob]:
        torch.manual_seed(0)
        layers: list[nn.Module] = [nn.Linear(784, 128), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Linear(128, 128), nn.ReLU()]
        model = nn.Sequential(nn.Flatten(), *layers, nn.Linear(128, 9))
        config = TrainConfig(LONG, sizes.of(128, 8)).replace(**sizes.run())
        return [TrainJob(model, loss, (images, labels), config)]

    return jobs


#: All steps, the most telling first; each is made only when it is measured.
STEPS: dict[str, Callable[[Sizes], Jobs]] = {
    "inference, paper": lambda s: symmetry(s, "paper", "inference"),
    "generative, paper": lambda s: symmetry(s, "paper", "generative"),
    "inference, paper, bf16": lambda s: symmetry(s, "paper", "inference", "bf16"),
    "generative, paper, bf16": lambda s: symmetry(s, "paper", "generative", "bf16"),
    "weights, fourier": lambda s: invariant_weights(s, "fourier"),
    "weights, relu": lambda s: invariant_weights(s, "relu"),
    "weights, fourier, 30 runs": lambda s: invariant_weights(s, "fourier", s.of(30, 2)),
    "natural, 8 runs": lambda s: natural(s, 8),
    "soft, 4 rotations": lambda s: relaxed(s, "soft", 4, "bf16-mixed", "tf32"),
    "soft, T(2)": lambda s: relaxed(s, "soft", 1, "bf16-mixed", "tf32"),
    "strict, 4 rotations": lambda s: relaxed(s, "strict", 4, "bf16-mixed", "tf32"),
    "partial, 4 rotations": lambda s: relaxed(s, "partial", 4, "bf16-mixed", "tf32"),
    "VAE": vae,
    "AugVAE": lambda s: vae(s, augmented=True),
    "invariant VAE": invariant_vae,
    "penalties": penalties,
    "inference, default": lambda s: symmetry(s, "default", "inference"),
    "generative, default": lambda s: symmetry(s, "default", "generative"),
    "weights, relu, 30 runs": lambda s: invariant_weights(s, "relu", s.of(30, 2)),
    "soft, 4 rotations, user's defaults": lambda s: relaxed(s, "soft", 4, "32-true", None),
    "soft, T(2), user's defaults": lambda s: relaxed(s, "soft", 1, "32-true", None),
    "inference, default, 4 models as one": lambda s: symmetry(s, "default", "inference", models=4),
    "generative, default, 4 models as one": lambda s: symmetry(
        s, "default", "generative", models=4
    ),
}


def _labelled(sizes: Sizes) -> tuple[Tensor, Tensor]:
    count = sizes.of(20_000, 140)
    labels = torch.arange(count) % 10
    return sizes.images(count, 1, 28).to(sizes.device), labels.to(sizes.device)


def _small(sizes: Sizes, jobs: Jobs) -> Jobs:
    """With small layers in a dry run."""
    import invariant_step_cuda as source

    def made() -> list[TrainJob]:
        if not sizes.dry:
            return jobs()
        with mock.patch.multiple(source, UNITS=32, SAMPLES=4, BATCH=16, DEVICE=sizes.device):
            return jobs()

    return made


class _Caught(Exception):
    """Carries what a function would have trained."""

    def __init__(self, job: TrainJob) -> None:
        super().__init__()
        self.job = job


def _caught(module: object, call: Callable[[], object]) -> TrainJob:
    """What a function hands to the ``train`` of its module."""

    def train(model: Any, loss: Any, data: Any, config: Any, **options: Any) -> None:  # noqa: ANN401
        options.pop("on_step", None)
        raise _Caught(TrainJob(model, loss, data, config, **options))

    with mock.patch.object(module, "train", train):
        try:
            call()
        except _Caught as caught:
            return caught.job
    raise RuntimeError("nothing was trained")


class Running:
    """A run of the training loop that goes on for as many steps as it is asked for.

    The parts are those of :func:`symmetries.training.loop.run_loop`, in its order, without files,
    progress bar and looks at the metrics.

    Args:
        jobs: one, or several that train as one.
        graph: "auto" or "off"; a job that wants none has none.
        loss_of: what becomes of the loss, such as ``torch.compile``.
    """

    def __init__(
        self, jobs: list[TrainJob], graph: str, loss_of: Callable[[Any], Any] = lambda loss: loss
    ) -> None:
        job, several = jobs[0], len(jobs) > 1
        wanted = graph if job.config.hardware.graph == "auto" else "off"
        self.config = config = job.config.replace(graph=wanted)
        self.products = job.products
        fabric = make_fabric(config)
        device = fabric.device
        graphed = wants_graph(config, device, fabric.world_size)
        seeds = [each.config.seed for each in jobs]
        model: nn.Module = Ensemble(jobs) if several else job.model
        groups = model.groups(job) if isinstance(model, Ensemble) else job.param_groups
        loss: Any = loss_of((lambda net, batch, step: net(batch, step)) if several else job.loss)
        model.train()
        objective = place(fabric, Objective(model, loss))
        self.optimizer = build_optimizer(model, config, groups, lr_tensor=graphed)
        if several:
            data = [each.data for each in jobs]
            self.batches = join_batches(data, config, seeds, device, 0)
            self.step: Step = Steps(config.steps, seeds, device)
        else:
            self.batches = make_batches(job.data, config, device, 0, 1, 0)
            self.step = Step(config.steps, config.seed, device, 0, 1)
        parts = (fabric, objective, self.optimizer, self.batches, self.step, config, None)
        self.update = Update(*parts, several)
        self.advance = GraphedUpdate(self.update, self.step, model) if graphed else self.update
        self.index = 0

    def context(self) -> AbstractContextManager[None]:
        """The rounding of products that the job asks for."""
        return (
            use_matmul_precision(self.products, self.config.device)
            if self.products
            else nullcontext()
        )

    def go(self, steps: int) -> dict[str, Tensor]:
        """So many steps more; the numbers of the last one."""
        metrics: dict[str, Tensor] = {}
        with self.context():
            for _ in range(steps):
                inputs = self.batches.inputs(self.index)
                self.step.begin(self.index)
                set_lr(self.optimizer, lr_factor(self.index, self.config))
                metrics = self.advance(inputs)
                self.index += 1
        return metrics

    @property
    def captured(self) -> bool | str:
        """Whether the step is a CUDA graph; or why not."""
        if not isinstance(self.advance, GraphedUpdate):
            return False
        return self.advance.reason or True
