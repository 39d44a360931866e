"""Ensembles: runs that differ in seed, initial weights or a number train as one computation.

The parameters of all models are stacked, ``torch.vmap`` evaluates all losses at once, and one
optimiser updates them, so the overhead of a run is paid once. Every model has the order of the
data and the random numbers that it would have alone, and its gradient is clipped by its own norm.
It therefore learns what it would learn alone, up to rounding.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from symmetries._validation.checks import check_number, invalid, short
from symmetries.training.batches import Batch, Data
from symmetries.training.config import TrainConfig
from symmetries.training.history import History
from symmetries.training.loop import OnStep, check_run, run_loop, train
from symmetries.training.matmul_precision import Products, use_matmul_precision
from symmetries.training.optim import ParamGroups
from symmetries.training.stacked import Ensemble
from symmetries.training.step import Step
from symmetries.training.update import Loss, Metrics

T = TypeVar("T")


@dataclass(frozen=True)
class TrainJob:
    """The arguments of one call of :func:`symmetries.training.train`, as a value.

    Args:
        model: as in ``train``, like the next five.
        loss: as in ``train``.
        data: as in ``train``.
        config: as in ``train``.
        param_groups: as in ``train``.
        on_step: as in ``train``.
        reads: modules that the loss reads but does not train. Everything else that differs between
            runs that train as one must be a buffer of one of them, or of the model.
        products: precision of matrix products; None keeps torch's setting.
    """

    model: nn.Module
    loss: Loss
    data: Data
    config: TrainConfig
    param_groups: ParamGroups | None = None
    on_step: OnStep | None = None
    reads: tuple[nn.Module, ...] = ()
    products: Products | None = None

    def __post_init__(self) -> None:
        check_run(self.model, self.loss, self.config)


TrainJobs = Generator[TrainJob, History, T]


class Numbers(nn.Module):
    """Numbers used by a loss, held as buffers so that runs that train as one may differ in them.

    Example:
        >>> Numbers(penalty=0.5)["penalty"]
        tensor(0.5000)
    """

    def __init__(self, **values: float) -> None:
        super().__init__()
        for name, value in values.items():
            check_number(value, name)
            self.register_buffer(name, torch.tensor(float(value)))

    def __getitem__(self, name: str) -> Tensor:
        return self.get_buffer(name)


def fit_alone(jobs: "TrainJobs[T]") -> T:
    """Train the jobs that a generator yields, one at a time, and return its result.

    Example:
        >>> def jobs(model, x):
        ...     def loss(model, batch, step):
        ...         return {"loss": model(batch[0]).square().mean()}
        ...     config = TrainConfig(steps=3, batch_size=2, device="cpu", progress=False)
        ...     history = yield TrainJob(model, loss, (x,), config)
        ...     return history.step[-1]
        >>> fit_alone(jobs(nn.Linear(1, 1), torch.ones(4, 1)))
        3
    """
    return fit_together([jobs])[0]


def fit_together(runs: Sequence["TrainJobs[T]"]) -> list[T]:
    """Advance several generators of jobs in parallel and train the jobs they yield as one.

    Args:
        runs: generators of :class:`TrainJob` that differ only in seeds, weights and buffers.

    Returns:
        The result of each generator.

    Example:
        >>> def jobs(model, x, seed):
        ...     def loss(model, batch, step):
        ...         return {"loss": (model(batch[0]) - 1).square().mean()}
        ...     config = TrainConfig(100, 2, 0.1, seed=seed, device="cpu", progress=False)
        ...     history = yield TrainJob(model, loss, (x,), config)
        ...     return history["loss"][-1] < 0.01
        >>> x = torch.ones(4, 1)
        >>> fit_together([jobs(nn.Linear(1, 1), x, seed) for seed in (0, 1)])
        [True, True]
    """
    several = isinstance(runs, Sequence) and len(runs) > 0
    if not several or not all(isinstance(each, Generator) for each in runs):
        expected = "a list of generators of TrainJobs, at least one"
        raise invalid("runs", expected, short(runs), "give what the models' train_jobs() returns")
    found: list[T] = []
    histories: Sequence[History | None] = [None] * len(runs)
    while not found:
        jobs: list[TrainJob] = []
        for run, history in zip(runs, histories, strict=True):
            try:
                jobs.append(next(run) if history is None else run.send(history))
            except StopIteration as end:
                found.append(end.value)
        if jobs and found:
            remedy = "fit models of one kind with the same options"
            raise invalid("runs", "the same number of jobs from each", "different numbers", remedy)
        if jobs:
            histories = train_together(jobs)
    return found


def fit_many(models: Sequence[Any], *data: Any, **options: Any) -> list[Any]:  # noqa: ANN401
    """Fit the models of several learners as one, as ``model.fit(*data, **options)`` fits each.

    The models must have a method ``train_jobs`` besides ``fit`` (symmetry models, VAEs, invariant
    VAEs) and may differ only in their seeds and weights.

    Args:
        models: models, fitted in place.
        data: arguments of ``fit``, the same for all.
        options: options of ``fit``; the folder ``out`` gets a subfolder for each model.

    Returns:
        The result of ``fit`` for each model; times are those of the whole ensemble.

    Example:
        >>> from symmetries.learners.vae import VAE, VAEConfig
        >>> small = VAEConfig.preset("quick").replace(steps=2, batch_size=4)
        >>> models = [VAE((1, 8, 8), small, seed=seed) for seed in (0, 1)]
        >>> histories = fit_many(models, torch.rand(8, 1, 8, 8), device="cpu", progress=False)
        >>> [history.step[-1] for history in histories]
        [2, 2]
    """
    several = isinstance(models, Sequence) and len(models) > 0
    if not several or not all(hasattr(model, "train_jobs") for model in models):
        expected = "a list of models that have train_jobs(), at least one"
        raise invalid("models", expected, short(models), "try VAE, InvariantVAE, SymmetryModel")
    for name in ("config", "group", "shape", "bounds"):
        settings = {repr(getattr(model, name, None)) for model in models}
        if len(settings) > 1:
            remedy = "fit models with other settings separately"
            raise invalid(name, "the same for all models", "different ones", remedy)
    out = options.pop("out", None)
    runs = []
    for r, model in enumerate(models):
        folder = None if out is None else Path(out) / f"{r}"
        runs.append(model.train_jobs(*data, out=folder, **options))
    return fit_together(runs)


def train_together(jobs: Sequence[TrainJob]) -> list[History]:
    """Train the models of several jobs as one; see :class:`TrainJob` for what may differ.

    The configurations must agree except for the seed and the folder; the checkpoint of all runs is
    in the folder of the first. The loss of the first job is used for all, so anything it closes
    over must be the same for every job, or be among its ``reads``.

    Returns:
        The history of each run; times are those of the whole ensemble.
    """
    if not isinstance(jobs, Sequence) or not jobs or not all(isinstance(j, TrainJob) for j in jobs):
        remedy = "make each as TrainJob(model, loss, data, config)"
        raise invalid("jobs", "a list of TrainJobs, at least one", short(jobs), remedy)
    config, products = jobs[0].config, jobs[0].products
    if len(jobs) == 1:
        job = jobs[0]
        with use_matmul_precision(products, config.device):
            return [
                train(
                    job.model,
                    job.loss,
                    job.data,
                    job.config,
                    param_groups=job.param_groups,
                    on_step=job.on_step,
                )
            ]
    _check_alike(jobs)
    ensemble = Ensemble(jobs)

    @wraps(jobs[0].loss)
    def loss(model: nn.Module, batch: Batch, step: Step) -> Metrics:
        return model(batch, step)

    def on_step(step: Step, metrics: Metrics) -> None:
        for r, job in enumerate(jobs):
            if job.on_step is not None:
                job.on_step(step, _own(metrics, r))

    data, seeds = [job.data for job in jobs], [job.config.seed for job in jobs]
    watched = on_step if any(job.on_step for job in jobs) else None
    try:
        with use_matmul_precision(products, config.device):
            history = run_loop(
                ensemble, loss, data, config, seeds, ensemble.groups(jobs[0]), watched
            )
    finally:
        ensemble.separate()
    return [
        replace(history, metrics={**_own(history.metrics, r), "lr": history["lr"]})
        for r in range(len(jobs))
    ]


def _own(values: Mapping[str, Any], member: int) -> dict[str, Any]:
    """Return the entries "NAME.NUMBER" that belong to one model, by name."""
    ending = f".{member}"
    return {name.removesuffix(ending): v for name, v in values.items() if name.endswith(ending)}


def _check_alike(jobs: Sequence[TrainJob]) -> None:
    first = jobs[0].config
    for job in jobs[1:]:
        same = job.config.replace(seed=first.seed, out=first.out)
        same = same.replace(given_seed=first.origin.given_seed)
        if same != first or job.products != jobs[0].products:
            remedy = "train runs with other settings separately"
            raise invalid("config", "equal settings, except seed and out", "different ones", remedy)
        if list(dict(job.model.named_parameters())) != list(dict(jobs[0].model.named_parameters())):
            remedy = "only models of one architecture train as one"
            raise invalid("model", "the same parameters in all", "different ones", remedy)
    if len({id(job.model) for job in jobs}) < len(jobs):
        raise invalid("model", "one for each job", "the same one twice", "build another")
    machine = first.hardware
    if first.optimiser.skip_bad or machine.devices * machine.nodes > 1:
        remedy = "train the runs on their own"
        raise invalid("config", "skip_bad=0 on one device, for several models", "others", remedy)
