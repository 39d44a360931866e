"""Objectives of a sweep: each learner with its settings and the numbers that it returns.

An objective takes training images, held-out images and settings, and returns plain numbers. It
never reads a test set.
"""

import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries._validation.checks import check_choice, invalid
from symmetries.data import ImageSet
from symmetries.groups import parse_group
from symmetries.training import Recipe, Step, TrainConfig, train
from symmetries.training.step import seeded


@dataclass(frozen=True)
class Task:
    """The data of one run, and its seed, folder and device.

    Args:
        train: images to train on.
        held_out: images to measure on.
        seed: random seed of the run.
        out: folder for its checkpoints, or None.
        device: device of the run, such as "auto" or "cpu".
    """

    train: ImageSet
    held_out: ImageSet
    seed: int = 0
    out: Path | None = None
    device: str = "auto"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of an image, (C, H, W)."""
        _, channels, height, width = self.train.images.shape
        return channels, height, width

    def labelled(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return training images and labels, and held-out images and labels."""
        if self.train.labels is None or self.held_out.labels is None:
            raise invalid(self.train.name, "labelled images", "no labels", "choose other data")
        held = self.held_out
        return self.train.images, self.train.labels, held.images, self.held_out.labels

    def config(self, steps: int, batch_size: int, lr: float, **more: Any) -> TrainConfig:  # noqa: ANN401
        """Return the training configuration of the run."""
        return TrainConfig(
            steps=steps,
            batch_size=min(batch_size, len(self.train)),
            lr=lr,
            seed=self.seed,
            out=self.out,
            device=self.device,
            progress=False,
        ).replace(log_every=max(1, steps // 20), **more)


Objective = Callable[..., dict[str, float]]


def invariant_weights(
    task: Task,
    *,
    group: str = "rotation",
    half_width: float = 0.1,
    learn: bool = True,
    lr: float = 0.1,
    steps: int = 150,
    batch_size: int = 500,
    features: int = 256,
    samples: int = 32,
) -> dict[str, float]:
    """Train with invariant weights (Ouderaa & Wilk 2022); return "elbo", "accuracy", "half_width".

    The "elbo" is that of the training set, which selects the symmetry. ``half_width`` is the
    initial half-width as a fraction of each parameter's range, and stays fixed without ``learn``.
    """
    from symmetries.learners.invariant_weights import InvariantWeights, InvariantWeightsConfig

    images, labels, held, truth = task.labelled()
    network = {"half_width": half_width, "learn": learn, "features": features}
    training = {"lr": lr, "steps": steps, "batch_size": batch_size, "samples": samples}
    config = InvariantWeightsConfig().replace(**network, **training)
    model = InvariantWeights(group, task.shape, task.train.classes, config, seed=task.seed)
    model.fit((images, labels), out=task.out, device=task.device, progress=False)
    elbo = model.summary((images, labels), most=len(images), seed=task.seed).elbo
    score = model.summary((held, truth), most=len(held), seed=task.seed).score
    shares = model.network.half_width[0].detach().cpu() / torch.tensor(model.group.bounds)
    return {"elbo": elbo, "accuracy": score, "half_width": float(shares.max())}


def penalties(
    task: Task,
    *,
    group: str = "c4",
    nu: float = 0.1,
    kind: str = "li",
    lr: float = 1e-3,
    steps: int = 500,
    batch_size: int = 256,
    width: int = 128,
    layers: int = 5,
) -> dict[str, float]:
    """Paper 1: a perceptron with a penalty; "accuracy", "li" (logit error), "si" (saliency)."""
    from symmetries.auditing import audit_model
    from symmetries.learners.penalties import regularised_loss

    check_choice(kind, ("li", "nli", "di"), "kind")
    images, labels, held, truth = task.labelled()
    parsed = parse_group(group)
    with seeded(task.seed):
        sizes = [images[0].numel(), *[width] * layers]
        hidden: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            hidden += [nn.Linear(inputs, outputs), nn.ReLU()]
        model = nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, task.train.classes))

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
        options: dict[str, Any] = {"nu": nu, "kind": kind, "generator": step.generator}
        return regularised_loss(model, batch[0], batch[1], parsed, **options)

    train(model, loss, (images, labels), task.config(steps, batch_size, lr))
    found = audit_model(model.eval(), (held, truth), parsed, steps=20, layers=(), progress=False)
    measures = {"accuracy": found.accuracy, "li": found.logit_invariance}
    measures["si"] = found.saliency_similarity
    return {name: measure.mean if measure else 0.0 for name, measure in measures.items()}


def relaxed(
    task: Task,
    *,
    group: str = "c4",
    relaxation: float | None = None,
    penalty: float = 0.1,
    lr: float = 3e-3,
    steps: int = 200,
    batch_size: int = 64,
    width: int = 6,
    kernel_size: int = 3,
) -> dict[str, float]:
    """Train a network whose omega' is learned under a penalty, or fixed; return "accuracy"."""
    from symmetries.learners.relaxed import RelaxedConfig, RelaxedEquivariance

    images, labels, held, truth = task.labelled()
    learned = relaxation is None
    start, weight = (0.1, penalty) if relaxation is None else (relaxation, 0.0)
    config = RelaxedConfig(relaxation=start, learn=learned, penalty=weight, width=width)
    config = config.replace(kernel_size=kernel_size, relaxation_lr=1.0, lr=lr, steps=steps)
    config = config.replace(batch_size=min(batch_size, len(images)))
    model = RelaxedEquivariance(group, task.shape, task.train.classes, config, seed=task.seed)
    model.fit((images, labels), out=task.out, device=task.device, progress=False)
    return {"accuracy": model.summary((held, truth), most=len(held)).accuracy}


def symmetry_model(
    task: Task,
    *,
    group: str = "affine",
    preset: str = "quick",
    stage: str = "inference",
    **settings: Any,  # noqa: ANN401 - fields of SymmetryConfig and of its stage
) -> dict[str, float]:
    """Train a symmetry model (Allingham et al. 2024) and return the held-out loss of a stage.

    The loss is "agreement" for the stage "inference" and "nll" for "generative".

    Settings are the fields of ``SymmetryConfig`` and of the stage's ``Recipe``: lr, steps, ...
    """
    from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
    from symmetries.learners.symmetry_model.losses import generative_loss, lie_inference_loss

    check_choice(stage, ("inference", "generative"), "stage")
    own = {name: value for name, value in settings.items() if name in Recipe.__dataclass_fields__}
    rest = {name: value for name, value in settings.items() if name not in own}
    config = SymmetryConfig.preset(preset).replace(**rest, **{stage: own})
    model = SymmetryModel(group, task.shape, config, seed=task.seed)
    stages = ("inference",) if stage == "inference" else ("inference", "generative")
    model.fit(task.train, stages=stages, out=task.out, device=task.device, progress=False)
    step = Step(total=1, seed=0, device=model.device)
    step.begin(0)
    held = task.held_out.images.to(model.device)
    with torch.no_grad():
        if stage == "inference":
            still = model.config.replace(alignment=0.0, blur=0.0)
            terms = lie_inference_loss(model.inference, held, step, model.act, still)  # type: ignore[arg-type]
            return {
                "agreement": float(terms["agreement"]),
                "content_kept": model.content_kept(held),
            }
        terms = generative_loss(
            model.generative, held, step, model.inference, model.act, model.config
        )
    return {"nll": float(terms["nll"])}


def vae(
    task: Task,
    *,
    preset: str = "quick",
    samples: int = 300,
    **settings: Any,  # noqa: ANN401 - fields of VAEConfig
) -> dict[str, float]:
    """Train a VAE; return the importance-weighted "bound" of held-out images, and its "error".

    Settings are the fields of ``VAEConfig``: lr, channels, steps, warmup, ...
    """
    from symmetries.learners.vae import VAE, VAEConfig

    if "channels" in settings and "strides" not in settings:  # the first two halve, as published
        settings["strides"] = (2, 2, *[1] * (len(settings["channels"]) - 2))
    config = VAEConfig.preset(preset).replace(**settings)
    model = VAE(task.shape, config, seed=task.seed)
    model.fit(task.train, out=task.out, device=task.device, progress=False)
    held = task.held_out.images.to(model.device)
    generator = torch.Generator(model.device).manual_seed(0)
    bound = float(model.bound(held, samples, generator).mean())
    return {"bound": bound, "error": float(F.mse_loss(model.reconstruct(held), held))}


OBJECTIVES: dict[str, Objective] = {
    "invariant-weights": invariant_weights,
    "penalties": penalties,
    "relaxed": relaxed,
    "symmetry-model": symmetry_model,
    "vae": vae,
}


def check_settings(learner: str, names: set[str]) -> None:
    """Raise an error if a learner is unknown, or has no setting of that name."""
    check_choice(learner, OBJECTIVES, "learner")
    parameters = inspect.signature(OBJECTIVES[learner]).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    known = {name for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    for name in sorted(names - known):
        expected = f"a setting of {learner}: {', '.join(sorted(known))}"
        raise invalid("settings", expected, repr(name), "check the spelling")
