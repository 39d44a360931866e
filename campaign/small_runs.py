"""A small training of every learner: what is killed, spread over processes, and run for hours.

Each takes a folder and returns the trained module. Data and networks are tiny, checkpoints come
every few steps; everything else is what users run.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import symmetries.training
from symmetries._utils.config import presets_of
from symmetries.training import Recipe, TrainConfig

CHECKPOINT_EVERY = 3
JOINT_STEPS = 14
WORLD: dict[str, Any] = {"devices": 1, "nodes": 1}  # processes of a run; campaign/ddp.py sets two
_checked = TrainConfig.__post_init__


def _often(config: TrainConfig) -> None:
    """Every run with checkpoints every few steps, in as many processes as there are.

    Runs without a folder, such as the self-test of an orbit posterior, are of one process.
    """
    parts = {
        "logging": config.logging.replace(checkpoint_every=CHECKPOINT_EVERY),
        "hardware": config.hardware if config.out is None else config.hardware.replace(**WORLD),
        "device": "cpu",
    }
    for name, value in parts.items():
        object.__setattr__(config, name, value)
    _checked(config)


TrainConfig.__post_init__ = _often  # type: ignore[method-assign]

from symmetries.groups import Affine2, Cyclic  # noqa: E402
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig  # noqa: E402
from symmetries.learners.invariant_weights import (  # noqa: E402
    NaturalConfig,
    augerino_loss,
    elbo_loss,
    fit_natural,
)
from symmetries.learners.penalties import regularised_loss  # noqa: E402
from symmetries.learners.relaxed import fit_relaxed  # noqa: E402
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel  # noqa: E402
from symmetries.learners.vae import VAE, InvVAE, VAEConfig  # noqa: E402
from symmetries.nn.invariant_model import shallow_model  # noqa: E402
from symmetries.nn.relaxed_networks import RelaxedCNN, Symmetry  # noqa: E402

Learner = Callable[[Path | None, bool], nn.Module]
COUNT = 48


def images(seed: int = 0, side: int = 8) -> Tensor:
    """Random pictures with something in the middle."""
    generator = torch.Generator().manual_seed(seed)
    pictures = torch.rand(COUNT, 1, side, side, generator=generator)
    axis = torch.linspace(-1, 1, side)
    return pictures * (1 - axis[:, None] ** 2) * (1 - axis**2)


def labels() -> Tensor:
    """Class numbers."""
    return torch.arange(COUNT) % 3


def config(out: Path | None, resume: bool, **changes: Any) -> TrainConfig:  # noqa: ANN401
    """Settings of the small runs."""
    settings = {"steps": 14, "batch_size": 16, "lr": 3e-3, "warmup": 1 / 7, "seed": 3}
    settings |= {
        "log_every": 4,
        "progress": False,
        "out": out,
        "resume": resume and out is not None,
    }
    return TrainConfig(1, 1).replace(**(settings | changes))


def small_config(**changes: Any) -> SymmetryConfig:  # noqa: ANN401
    """A symmetry model of a few units and steps."""
    stage = Recipe(steps=12, batch_size=16, lr=1e-3)
    return SymmetryConfig().replace(
        widths=(16, 8),
        samples=2,
        features=(16, 8),
        base=(8,),
        layers=2,
        conditioner=8,
        holdout=0.2,
        inference=stage,
        generative=stage,
        **changes,
    )


def _symmetry(group: str, out: Path | None, resume: bool, **changes: Any) -> nn.Module:  # noqa: ANN401
    settings = small_config(**changes)
    model = SymmetryModel(group, (1, 8, 8), settings, seed=1)
    model.fit(images(), out=out, resume=resume and out is not None, progress=False, log_every=4)
    return model


def symmetry_model(out: Path | None, resume: bool) -> nn.Module:
    """Both stages of the symmetry model, with held-out stopping."""
    return _symmetry("rotation,translation", out, resume)


def finite_symmetry_model(out: Path | None, resume: bool) -> nn.Module:
    """The same over a finite group."""
    return _symmetry("c4", out, resume)


def invariant_weights(out: Path | None, resume: bool) -> nn.Module:
    """The ELBO by gradients, with a Gaussian last layer."""
    torch.manual_seed(0)
    model = shallow_model((1, 8, 8), 3, Affine2("rotation"), features=12, posterior="full", seed=0)
    loss = elbo_loss(COUNT, samples=4, draws=2)
    symmetries.training.train(model, loss, (images(), labels()), config(out, resume))
    return model


def augerino(out: Path | None, resume: bool) -> nn.Module:
    """Augerino's baseline."""
    torch.manual_seed(0)
    model = shallow_model((1, 8, 8), 3, Affine2("rotation"), features=12, posterior="point", seed=0)
    loss = augerino_loss(samples=2)
    symmetries.training.train(model, loss, (images(), labels()), config(out, resume))
    return model


def natural(out: Path | None, resume: bool) -> nn.Module:
    """The ELBO by natural-gradient steps."""
    torch.manual_seed(0)
    model = shallow_model((1, 8, 8), 3, Affine2("rotation"), features=12, seed=0)
    settings = NaturalConfig(steps=14, batch_size=16, samples=4, draws=2, seed=3)
    settings = settings.replace(head_only=2)
    more = {"out": out, "resume": resume} if out is not None else {}
    fit_natural(model, [images()], labels(), settings, **more)
    return model


def relaxed(out: Path | None, resume: bool) -> nn.Module:
    """A network whose layers learn how equivariant to be."""
    torch.manual_seed(0)
    model = RelaxedCNN(1, 3, Symmetry(Cyclic(4), "soft", {"rotation": 0.1}), width=2, kernel_size=3)
    fit_relaxed(model, images(), labels(), config(out, resume), penalty=0.1)
    return model


def penalties(out: Path | None, resume: bool) -> nn.Module:
    """A network trained for invariance by a penalty on random transformations."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 3))
    group = Affine2("rotation")

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Any) -> dict[str, Tensor]:  # noqa: ANN401
        options = {"nu": 0.1, "samples": 3, "generator": step.generator}
        return regularised_loss(model, *batch, group, **options)

    symmetries.training.train(model, loss, (images(), labels()), config(out, resume))
    return model


def dropout_network(out: Path | None, resume: bool) -> nn.Module:
    """A plain network with dropout: random numbers inside layers."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Dropout(0.5))
    model.append(nn.Linear(12, 3))

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Any) -> dict[str, Tensor]:  # noqa: ANN401
        x, y = batch
        return {"loss": nn.functional.cross_entropy(model(x + 0.1 * step.randn(*x.shape)), y)}

    symmetries.training.train(model, loss, (images(), labels()), config(out, resume))
    return model


def relaxed_without_batch_norm(out: Path | None, resume: bool) -> nn.Module:
    """The same without batch norm, which looks at a process's own share of a batch."""
    torch.manual_seed(0)
    model = RelaxedCNN(1, 3, Symmetry(Cyclic(4), "soft", {"rotation": 0.1}), width=2, kernel_size=3)
    for name, module in [*model.named_modules()]:
        if "BatchNorm" in type(module).__name__:
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], nn.Identity())
    fit_relaxed(model, images(), labels(), config(out, resume), penalty=0.1)
    return model


def variational_autoencoder(out: Path | None, resume: bool) -> nn.Module:
    """A VAE."""
    settings = VAEConfig.preset("quick").replace(steps=14, batch_size=16, latent=3)
    model = VAE((1, 8, 8), settings, seed=1)
    model.fit(images(), out=out, resume=resume and out is not None, progress=False, log_every=4)
    return model


def invariant_vae(out: Path | None, resume: bool) -> nn.Module:
    """A VAE of prototypes, given a symmetry model."""
    settings = VAEConfig.preset("quick").replace(steps=14, batch_size=16, latent=3)
    model = InvVAE(SymmetryModel("rotation", (1, 8, 8), "quick", seed=1), settings, seed=1)
    model.fit(images(), out=out, resume=resume and out is not None, progress=False, log_every=4)
    return model


def joint_vae(out: Path | None, resume: bool) -> nn.Module:
    """The VAE whose prototypes and transformations are learned in one piece."""
    small = {"steps": JOINT_STEPS, "batch_size": 16, "latent": 3, "channels": (4, 4), "samples": 2}
    settings = InvariantVAEConfig.preset("quick").replace(**small)
    model = InvariantVAE("rotation", (1, 8, 8), settings, seed=1)
    pictures = images().double() if WORLD.get("precision") == "64-true" else images()
    model.fit(pictures, out=out, resume=resume and out is not None, progress=False, log_every=4)
    return model


LEARNERS: dict[str, Learner] = {
    "symmetry model": symmetry_model,
    "symmetry model, finite group": finite_symmetry_model,
    "invariant weights, gradients": invariant_weights,
    "invariant weights, natural gradients": natural,
    "Augerino": augerino,
    "relaxed equivariance": relaxed,
    "relaxed equivariance, no batch norm": relaxed_without_batch_norm,
    "VAE": variational_autoencoder,
    "InvVAE": invariant_vae,
    "invariant VAE, in one piece": joint_vae,
    "penalties": penalties,
    "network with dropout": dropout_network,
}


def small_presets() -> None:
    """Make the quick preset of every command one of a few steps."""
    from symmetries.analysis import audits, augmentation, classifiers, prescribing
    from symmetries.analysis.network_trials import Size
    from symmetries.analysis.quick_networks import SIZES
    from symmetries.learners.invariant_network.config import InvariantNetworkConfig
    from symmetries.learners.orbit_posterior import OrbitConfig, fitting
    from symmetries.monitoring import naming, readers

    classifiers.INVARIANT_PRESETS["quick"] = {"features": 16, "steps": 14, "batch_size": 48}
    classifiers.RELAXED_PRESETS["quick"] = {"width": 2, "steps": 14, "batch_size": 16}
    presets_of(SymmetryConfig)["quick"] = small_config()
    fitting.LOOKED_AT = 64
    presets_of(OrbitConfig)["quick"] = OrbitConfig.preset("quick").replace(
        bins=12,
        folds=2,
        training={"steps": 12, "batch_size": 16, "rounds": 1},
        network={"kind": "mlp", "features": 16},
        reading={"pictures": 64, "resamples": 8},
    )
    presets_of(InvariantNetworkConfig)["quick"] = InvariantNetworkConfig(samples=2).replace(
        steps=14, batch_size=16, search=2, every=5, curvature_rows=16
    )
    readers.STEPS, naming.GRID = 5, 5
    SIZES["quick"], prescribing.GRID = Size(2, 16, 2), {"rotation": (20.0,)}
    audits.PART = 8
    augmentation.AT_ONCE = 64


def fingerprint(model: nn.Module) -> str:
    """SHA-256 of all parameters and buffers, bit for bit."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
