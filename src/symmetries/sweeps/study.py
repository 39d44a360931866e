"""A study on disk that any number of processes on any number of machines may join.

The study is an Optuna study in a journal file (which needs a shared file system) or a database.
Trials that a killed process left unfinished are repeated by the next process that joins.
"""

import os
import platform
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch

from symmetries._utils.text import masked
from symmetries._validation.checks import as_folder, invalid
from symmetries.data import ImageSet, load
from symmetries.results import RunInfo, SweepResult, Trial
from symmetries.sweeps.config import Range, SweepConfig
from symmetries.sweeps.sweep_objectives import OBJECTIVES, Task, check_settings
from symmetries.training import NonFiniteError, pruning_hook

Study: TypeAlias = Any  # Optuna's Study; Optuna is imported only when needed
JOURNAL = "study.journal"
JOINED = "joined "  # prefix of the attribute that records a process
NAME = "sweep"


def join(
    config: SweepConfig,
    folder: Path,
    *,
    storage: str | None = None,
    device: str = "auto",
    data_folder: Path | None = None,
    keep: bool = False,
    ready: Callable[[Collection[str]], bool] | None = None,
) -> Study:
    """Work on a study until it has all its trials; create it if necessary.

    Args:
        config: configuration of the study, the same in every process.
        folder: folder of the journal and of checkpoints.
        storage: address of a database for Optuna, instead of the journal.
        device: device of the runs.
        data_folder: folder of data files.
        keep: whether to keep the checkpoints and metrics of every run.
        ready: called with the names (see :func:`process_name`) of all processes that ever joined,
            until it returns True; trials begin only then. None begins at once.

    Returns:
        The study, with the trials of all processes.
    """
    optuna = _optuna()
    check_settings(config.learner, {*config.settings, *config.search})
    study = open_study(config, folder, storage)
    _take_up_lost(study)
    train, held_out = _split(load(config.data, "train", data_folder), config)

    def objective(trial: Any) -> float:  # noqa: ANN401 - Optuna's
        trial.set_user_attr("process", process_name())
        settings = {name: _suggest(trial, name, what) for name, what in config.search.items()}
        out = folder / "runs" / f"{trial.number:04d}" if keep else None
        task = Task(train, held_out, config.seed, out, device)
        sign = 1 if config.direction == "minimize" else -1

        def watch(done: int, numbers: Mapping[str, float]) -> None:
            if config.pruner != "none" and config.watch in numbers:
                trial.report(sign * numbers[config.watch], done)
                if trial.should_prune():
                    raise optuna.TrialPruned

        with pruning_hook(watch), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = OBJECTIVES[config.learner](task, **{**config.settings, **settings})
            except NonFiniteError as error:  # diverged: counts as pruned
                trial.set_user_attr("reason", str(error))
                raise optuna.TrialPruned from error
        if config.measure not in found:
            expected = f"one of {', '.join(sorted(found))}"
            raise invalid("measure", expected, repr(config.measure), "correct the config")
        trial.set_user_attr("numbers", found)
        return found[config.measure]

    study.set_user_attr(JOINED + process_name(), True)
    while ready is not None and len(_settled(study)) < config.total and not ready(_joined(study)):
        time.sleep(0.05)
    while len(_settled(study)) < config.total:
        before = len(study.trials)
        study.optimize(objective, n_trials=1)
        if len(study.trials) == before:  # the grid is exhausted, partly by other processes
            break
    return study


def open_study(config: SweepConfig, folder: Path, storage: str | None = None) -> Study:
    """Return the study of a configuration: an existing one, or a new one."""
    folder = as_folder(folder)
    optuna = _optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    journal = optuna.storages.journal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place: Any = storage
        if storage is None:
            lock = journal.JournalFileOpenLock(str(folder / JOURNAL))
            backend = journal.JournalFileBackend(str(folder / JOURNAL), lock_obj=lock)
            place = optuna.storages.JournalStorage(backend)
        try:
            study = optuna.create_study(
                storage=place,
                study_name=NAME,
                direction=config.direction,
                sampler=_sampler(config),
                pruner=_pruner(config),
                load_if_exists=True,
            )
        except Exception as error:  # whatever Optuna, SQLAlchemy or a driver raises
            if storage is None:
                raise
            got = f"{type(error).__name__}: {masked(str(error))[:200]}"
            remedy = "check the address, and that its driver is installed"
            raise invalid("storage", "the address of a database", got, remedy) from error
    stored = study.user_attrs.get("config")
    if stored is None:
        study.set_user_attr("config", config.digest())
    elif stored != config.digest():
        got = "another learner, data, measure, search or seed"
        remedy = "choose another --out, or give the same config again (trials may grow)"
        raise invalid(str(folder), "the config that the study was begun with", got, remedy)
    return study


def collect(study: Study, config: SweepConfig, run: RunInfo) -> SweepResult:
    """Return the trials of a study as plain numbers, best first."""
    trials = []
    for trial in study.trials:
        seconds = trial.duration.total_seconds() if trial.duration else 0.0
        trials.append(
            Trial(
                number=trial.number,
                state=trial.state.name.lower(),
                value=trial.value if trial.state.name == "COMPLETE" else None,
                settings={k: _plain(v) for k, v in trial.params.items()},
                numbers=trial.user_attrs.get("numbers", {}),
                seconds=round(seconds, 3),
            )
        )
    sign = 1 if config.direction == "minimize" else -1
    trials.sort(key=lambda t: (t.value is None, 0.0 if t.value is None else sign * t.value))
    return SweepResult(
        learner=config.learner,
        data=config.data,
        measure=config.measure,
        direction=config.direction,
        settings={k: _plain(v) for k, v in config.settings.items()},
        trials=tuple(trials),
        run=run,
    )


def _settled(study: Study) -> list[Any]:
    """Return the trials that count: finished, pruned, or running in some process."""
    return [t for t in study.trials if t.state.name in ("COMPLETE", "PRUNED", "RUNNING")]


def _take_up_lost(study: Study) -> None:
    """Close the trials of dead processes of this machine, and queue them again."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        host, _, number = str(trial.user_attrs.get("process", "")).rpartition(":")
        if host == platform.node() and not _alive(int(number)):
            # Not study.tell, which samplers take for a part of the optimisation.
            study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
            if trial.params:
                study.enqueue_trial(trial.params, skip_if_exists=False)


def process_name(number: int | None = None) -> str:
    """Return the name in the study of this process, or of another process of this machine."""
    return f"{platform.node()}:{os.getpid() if number is None else number}"


def _joined(study: Study) -> set[str]:
    return {name.removeprefix(JOINED) for name in study.user_attrs if name.startswith(JOINED)}


def _alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _split(images: ImageSet, config: SweepConfig) -> tuple[ImageSet, ImageSet]:
    """Split the training images into images to train on and images to measure on."""
    count = len(images) if config.images is None else min(config.images, len(images))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(config.seed))
    held = max(1, round(config.holdout * count))
    if held >= count:
        raise invalid("data", "at least 2 images", count, "give more images: some are held out")
    return images.subset(order[held:]), images.subset(order[:held])


def _suggest(trial: Any, name: str, what: Any) -> Any:  # noqa: ANN401 - any setting
    if isinstance(what, Range):
        whole = isinstance(what.low, int) and isinstance(what.high, int)
        suggest = trial.suggest_int if whole else trial.suggest_float
        return suggest(name, what.low, what.high, log=what.log)
    if any(isinstance(value, list) for value in what):  # Optuna stores only scalar choices
        return what[int(trial.suggest_categorical(name, [*range(len(what))]))]
    return trial.suggest_categorical(name, what)


def _sampler(config: SweepConfig) -> Any:  # noqa: ANN401 - one of Optuna's
    samplers = _optuna().samplers
    # Processes must not propose the same settings, so their index is part of the seed.
    seed = (config.seed + os.getpid()) % 2**31
    if config.sampler == "grid":
        grid = {
            name: [*range(len(v))] if any(isinstance(x, list) for x in v) else v
            for name, v in config.search.items()
            if isinstance(v, list)
        }
        return samplers.GridSampler(grid, seed=seed)
    if config.sampler == "random":
        return samplers.RandomSampler(seed=seed)
    return samplers.TPESampler(seed=seed)


def _pruner(config: SweepConfig) -> Any:  # noqa: ANN401 - one of Optuna's
    pruners = _optuna().pruners
    if config.pruner == "hyperband":
        return pruners.HyperbandPruner()
    return pruners.MedianPruner() if config.pruner == "median" else pruners.NopPruner()


def _plain(value: Any) -> Any:  # noqa: ANN401 - any setting
    return str(value) if isinstance(value, list | tuple) else value


def _optuna() -> Any:  # noqa: ANN401 - a module
    try:
        import optuna
    except ImportError as error:
        raise ImportError(
            "sweeps need the package optuna, which is not installed; "
            'run: pip install "symmetries[sweep]"'
        ) from error
    return optuna
