"""Many models at once: each must learn what it learns alone.

In double precision, where rounding has no time to grow: parameters agree to 1e-9.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from symmetries.groups import Cyclic
from symmetries.learners import relaxed
from symmetries.learners.invariant_vae import InvariantVAE, InvariantVAEConfig
from symmetries.learners.penalties import ConstrainedWeight, regularised_loss
from symmetries.learners.symmetry_model import SymmetryConfig, SymmetryModel
from symmetries.learners.vae import VAE, VAEConfig
from symmetries.nn.relaxed_networks import RelaxedResNet, Symmetry
from symmetries.training import Recipe, Step, TrainConfig, fit_many, train
from symmetries.training.ensemble import (
    Numbers,
    TrainJob,
    fit_alone,
    fit_together,
    train_together,
)

SEEDS = (3, 5, 8)
RUN: dict[str, Any] = {"device": "cpu", "progress": False}


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def images(count: int = 40, channels: int = 1, side: int = 8) -> Tensor:
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(0))


def labels(count: int = 40, classes: int = 3) -> Tensor:
    return torch.arange(count) % classes


def distance(one: nn.Module, other: nn.Module) -> float:
    states = one.state_dict(), other.state_dict()
    assert list(states[0]) == list(states[1])
    return max(float((states[0][k] - states[1][k]).abs().max()) for k in states[0])


def assert_same(alone: list[Any], together: list[Any]) -> None:
    for one, other in zip(alone, together, strict=True):
        # Adam divides what is left of a gradient of zero, 1e-15, by at least 1e-8.
        assert distance(one, other) < 1e-8
    assert distance(together[0], together[1]) > 1e-3  # seeds differ, so the models must


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    hidden = (nn.Linear(64, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3))
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(8, 3))


def config(seed: int, **changes: Any) -> TrainConfig:
    options = {"clip": 0.1, "algorithm": "adamw", "weight_decay": 0.1, "warmup": 0.25, **RUN}
    return TrainConfig(8, 12, seed=seed).replace(**{**options, **changes})


def noisy_loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
    """Draws in every way: by the step, by its generator, by the global one, by dropout."""
    x, y = batch
    shift = torch.rand(len(x), 1, 1, 1, generator=step.generator)
    x = x + 0.1 * step.randn(*x.shape) + 0.1 * torch.randn_like(x) + shift
    kept = torch.bernoulli(torch.full_like(x, 0.9))
    entropy = F.cross_entropy(model(x * kept), y)
    return {"loss": entropy * (1 + step.progress), "entropy": entropy}


def job(seed: int, **changes: Any) -> TrainJob:
    return TrainJob(network(seed), noisy_loss, (images(), labels()), config(seed, **changes))


def test_same_as_alone_with_dropout_batch_norm_and_clipping() -> None:
    alone = [job(seed) for seed in SEEDS]
    histories = [train(j.model, j.loss, j.data, j.config) for j in alone]
    together = [job(seed) for seed in SEEDS]
    found = train_together(together)
    assert_same([j.model for j in alone], [j.model for j in together])
    for one, other in zip(histories, found, strict=True):
        assert one.step == other.step
        assert set(one.metrics) == set(other.metrics)
        assert one["entropy"] == pytest.approx(other["entropy"], abs=1e-9)
        assert one["lr"] == other["lr"]


def test_without_own_clipping_it_would_differ() -> None:
    loose = [job(seed, clip=None) for seed in SEEDS[:2]]
    tight = [job(seed) for seed in SEEDS[:2]]
    train_together(loose)
    train_together(tight)
    assert distance(loose[0].model, tight[0].model) > 1e-4


def test_parameter_groups_and_callbacks_belong_to_each_model() -> None:
    seen: dict[int, list[float]] = {seed: [] for seed in SEEDS[:2]}

    def own(seed: int) -> TrainJob:
        made = job(seed, clip=None)
        weight, *rest = made.model.parameters()
        groups = [{"params": rest}, {"params": [weight], "lr_multiplier": 5.0, "clip": False}]

        def look(step: Step, metrics: Any) -> None:
            # The model itself is up to date while all are trained.
            assert "loss" in metrics
            seen[seed].append(float(weight.detach().sum()))

        return replace(made, param_groups=groups, on_step=look)

    alone, together = [own(s) for s in SEEDS[:2]], [own(s) for s in SEEDS[:2]]
    for made in alone:
        train_together([made])
    by_alone = {seed: list(values) for seed, values in seen.items()}
    for values in seen.values():
        values.clear()
    train_together(together)
    assert_same([j.model for j in alone], [j.model for j in together])
    for seed in SEEDS[:2]:
        assert seen[seed] == pytest.approx(by_alone[seed], abs=1e-9)


def test_resumes_with_the_same_weights(tmp_path: Path) -> None:
    whole = [job(seed, out=tmp_path / f"whole-{seed}") for seed in SEEDS]
    train_together(whole)

    class Stop(Exception):
        pass

    def stop(step: Step, metrics: Any) -> None:
        if step.index == 5:
            raise Stop

    parts = [job(seed, out=tmp_path / f"part-{seed}", checkpoint_every=4) for seed in SEEDS]
    with pytest.raises(Stop):
        train_together([replace(part, on_step=stop) for part in parts])
    again = [
        job(seed, out=tmp_path / f"part-{seed}", checkpoint_every=4, resume=True) for seed in SEEDS
    ]
    histories = train_together(again)
    for one, other in zip(whole, again, strict=True):
        assert distance(one.model, other.model) == 0.0
    assert histories[0].step[-1] == 8
    fewer = [job(seed, out=tmp_path / f"part-{seed}", resume=True) for seed in (3, 5, 9)]
    with pytest.raises(ValueError, match="seeds"):
        train_together(fewer)


def test_a_generator_of_ones_own_gives_all_models_the_same() -> None:
    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(7)
        torch.rand(3, generator=generator)
        numbers = torch.rand(3, generator=generator)
        return {"loss": (model(batch[0]).mean(0) * numbers).sum(), "first": numbers[0]}

    histories = train_together([replace(job(s), loss=loss) for s in SEEDS])
    expected = float(torch.rand(6, generator=torch.Generator().manual_seed(7))[3])
    for history in histories:
        assert history["first"] == pytest.approx([expected] * len(history.step), abs=1e-12)


def test_numbers_drawn_in_place_are_refused() -> None:
    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
        return {"loss": model(batch[0] + torch.empty(1, 1, 8, 8).normal_()).mean()}

    with pytest.raises(RuntimeError, match="randomness"):
        train_together([replace(job(s), loss=loss) for s in SEEDS])


def test_models_that_differ_are_refused() -> None:
    other = job(4)
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(ValueError, match="same parameters"):
        train_together([job(3), replace(other, model=wide)])
    with pytest.raises(ValueError, match="seed and out"):
        train_together([job(3), job(4, lr=0.1)])
    with pytest.raises(ValueError, match="skip_bad"):
        train_together([job(3, skip_bad=1), job(4, skip_bad=1)])
    with pytest.raises(ValueError, match="one for each job"):
        train_together([other, replace(other, config=config(5))])
    broad = network(4)
    broad[5] = nn.Linear(8, 4)
    with pytest.raises(ValueError, match="one shape"):
        train_together([job(3), replace(other, model=broad)])
    with pytest.raises(ValueError, match="config"):
        fit_many([VAE((1, 8, 8), vae_config(latent=n)) for n in (2, 3)], images())

    def once(again: bool) -> Any:
        yield job(3)
        if again:
            yield job(3)

    with pytest.raises(ValueError, match="the same number of jobs"):
        fit_together([once(False), once(True)])


def vae_config(**changes: Any) -> VAEConfig:
    small = {"latent": 3, "channels": (4, 4), "strides": (2, 1), "hidden": 8}
    return VAEConfig().replace(**{**small, "steps": 6, "batch_size": 8, **changes})


def assert_fits_alike(make: Callable[[int], Any], data: Tensor, **options: Any) -> None:
    alone, together = [make(seed) for seed in SEEDS], [make(seed) for seed in SEEDS]
    for model in alone:
        model.fit(data, **RUN, **options)
    fit_many(together, data, **RUN, **options)
    assert_same(alone, together)


def test_vae() -> None:
    assert_fits_alike(lambda seed: VAE((1, 8, 8), vae_config(), seed=seed), images())


def test_a_fit_of_many_goes_on_from_its_folder(tmp_path: Path) -> None:
    def made() -> list[VAE]:
        return [VAE((1, 8, 8), vae_config(), seed=seed) for seed in SEEDS]

    first, again = made(), made()
    fit_many(first, images(), out=tmp_path, **RUN)
    assert (tmp_path / "0" / "checkpoint.json").exists()
    histories = fit_many(again, images(), out=tmp_path, resume=True, **RUN)
    for one, other in zip(first, again, strict=True):
        assert distance(one, other) == 0.0
    assert [history.step[-1] for history in histories] == [6, 6, 6]


def test_groups_must_agree() -> None:
    models = [SymmetryModel(name, (1, 8, 8), "quick") for name in ("rotation", "zoom")]
    with pytest.raises(ValueError, match="group"):
        fit_many(models, images())


def test_vae_with_augmentation() -> None:
    def augment(x: Tensor, generator: torch.Generator) -> Tensor:
        return x + 0.1 * torch.randn(x.shape, generator=generator)

    make = lambda seed: VAE((1, 8, 8), vae_config(), seed=seed)  # noqa: E731
    assert_fits_alike(make, images(), augment=augment)


@pytest.mark.parametrize("group", ["rotation", "c4"])
def test_invariant_vae(group: str) -> None:
    small = {"latent": 3, "channels": (4,), "strides": (2,), "hidden": 8, "features": (8,)}
    small |= {"layers": 2, "bins": 4, "conditioner": 8, "base": (8,), "samples": 2}
    chosen = InvariantVAEConfig().replace(**{**small, "steps": 5, "batch_size": 8})
    assert_fits_alike(lambda s: InvariantVAE(group, (1, 8, 8), chosen, seed=s), images())


@pytest.mark.filterwarnings("ignore:bounds", "ignore:the prototypes")
@pytest.mark.parametrize(
    ("group", "channels", "network"),
    [("affine", 1, "mlp"), ("c4", 1, "cnn"), ("colour", 3, "mlp")],
)
def test_symmetry_model_both_stages(group: str, channels: int, network: str) -> None:
    stage = Recipe(steps=5, batch_size=8)
    chosen = SymmetryConfig().replace(
        kind=network,
        widths=(16,),
        features=(16,),
        feature_dropout=0.2,
        conditioner=8,
        conditioner_dropout=0.2,
        base=(8,),
        layers=2,
        samples=2,
        holdout=0.2,
        blur=1.0,
        inference=stage,
        generative=stage,
    )
    make = lambda seed: SymmetryModel(group, (channels, 8, 8), chosen, seed=seed)  # noqa: E731
    assert_fits_alike(make, images(channels=channels))


@pytest.mark.parametrize("mode", ["soft", "partial", "strict"])
def test_relaxed_classifiers_with_penalties_of_their_own(mode: str) -> None:
    def fittings() -> tuple[list[nn.Module], list[Any]]:
        models: list[nn.Module] = []
        made = []
        for seed, penalty in zip(SEEDS, (0.0, 1.0, 10.0), strict=True):
            torch.manual_seed(seed)
            relax = {"rotation": 0.3} if mode == "soft" else None
            symmetry = Symmetry(Cyclic(4), mode, relax, options={"hidden": 8})
            models.append(RelaxedResNet(1, 3, symmetry, width=2, kernel_size=3, last_kernel=2))
            options = {"penalty": penalty, "random_turn": mode == "soft", "relaxation_lr": 3.0}
            run = config(seed, steps=3)
            made.append(relaxed.train_jobs(models[-1], images(), labels(), run, **options))
        return models, made

    alone, one_by_one = fittings()
    for fitting in one_by_one:
        fit_alone(fitting)
    together, at_once = fittings()
    fit_together(at_once)
    assert_same(alone, together)


def test_penalised_classifiers_with_weights_of_their_own() -> None:
    def made(seed: int, nu: float) -> TrainJob:
        weight = ConstrainedWeight(0.1, start=nu)

        def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
            x, y = batch
            return regularised_loss(model, x, y, Cyclic(4), nu=weight.nu, kind="li")

        torch.manual_seed(seed)
        hidden = nn.Linear(64, 8), nn.ReLU()
        model = nn.Sequential(nn.Flatten(), *hidden, nn.Linear(8, 3))
        return TrainJob(model, loss, (images(), labels()), config(seed), reads=(weight,))

    pairs = list(zip(SEEDS, (0.1, 1.0, 10.0), strict=True))
    alone, together = [made(*pair) for pair in pairs], [made(*pair) for pair in pairs]
    for one in alone:
        train_together([one])
    train_together(together)
    assert_same([j.model for j in alone], [j.model for j in together])


def test_what_all_runs_read_is_not_copied() -> None:
    shared = Numbers(factor=2.0)

    def loss(model: nn.Module, batch: tuple[Tensor, ...], step: Step) -> dict[str, Tensor]:
        return {"loss": shared["factor"] * F.cross_entropy(model(batch[0]), batch[1])}

    before = shared["factor"]
    train_together([replace(job(s), loss=loss, reads=(shared,)) for s in SEEDS])
    assert shared["factor"] is before
