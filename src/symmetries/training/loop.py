"""Training loop of all learners."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from symmetries._utils.provenance import learner_digest
from symmetries._validation.checks import check_module, wrong_type
from symmetries.training.atomic_files import FolderInUseError, folder_lock
from symmetries.training.batches import Batches, Data
from symmetries.training.config import TrainConfig
from symmetries.training.fabric import make_fabric, place
from symmetries.training.fingerprint import fingerprint
from symmetries.training.graph import BlockStep, BlockUpdate, GraphedUpdate, wants_graph
from symmetries.training.history import History
from symmetries.training.interrupt import Interrupt
from symmetries.training.log import Log, advice
from symmetries.training.optim import ParamGroups, build_optimizer, lr_factor, set_lr
from symmetries.training.resume import Checkpoints, NonFiniteError, check_weights
from symmetries.training.side_by_side import next_turn, torch_threads
from symmetries.training.source import PreparedBatches, count_examples, join_batches, make_batches
from symmetries.training.step import Step, Steps, due
from symmetries.training.update import Loss, Metrics, Objective, SkipNonFinite, Update

if TYPE_CHECKING:
    from lightning_fabric import Fabric

OnStep = Callable[[Step, Metrics], None]


def train(
    model: nn.Module,
    loss: Loss,
    data: Data,
    config: TrainConfig,
    *,
    param_groups: ParamGroups | None = None,
    on_step: OnStep | None = None,
) -> History:
    r"""Minimise a loss: theta <- theta - lr(s) optimiser(grad loss(theta, batch_s, numbers_s)).

    The batch and the random numbers of step s follow from (seed, s) alone. Therefore a run that was
    stopped, killed or interrupted and continues with ``resume=True`` ends with the same weights as
    an uninterrupted run (bit for bit on a CPU), and several processes compute what one would: each
    takes its share of the batch, gradients and metrics are averaged, and one process writes files.

    With ``config.out``, the folder receives ``metrics.csv`` and ``checkpoint.json`` with its
    tensors, and is locked against a second run. Ctrl-C finishes the step, writes a checkpoint and
    raises ``KeyboardInterrupt`` with a note on how to continue.

    Args:
        model: model, trained in place in train mode; moved to the device and left there.
        loss: ``loss(model, batch, step)`` returns a mapping with "loss" (a scalar tensor, the mean
            over the batch) and further numbers to log. It may call any method of the model;
            random numbers should come from ``step`` (see :class:`Step`).
        data: a tuple of tensors with one row per example, an ``ImageSet``, or a ``Dataset``. A
            batch is the tuple of their rows.
        config: configuration of the run.
        param_groups: mappings with "params" and any of "lr" or "lr_multiplier", "weight_decay",
            "clip" (False: not clipped). None trains all parameters alike.
        on_step: called as ``on_step(step, metrics)`` after every step, in every process. The
            metrics are tensors on the device: reading one synchronises, keeping one needs a clone.

    Returns:
        The history of logged metrics.

    Raises:
        NonFiniteError: if the loss becomes NaN or infinite (seen at the next look at it), or more
            than ``config.optimiser.skip_bad`` batches were bad.
        LossError: if torch refuses a batch inside the loss: it says what the batch was.
        FolderInUseError: if another run writes into ``config.out``.

    Example:
        >>> model = nn.Linear(1, 1)
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> def loss(model, batch, step):
        ...     return {"loss": (model(batch[0]) - 3 * batch[0]).square().mean()}
        >>> config = TrainConfig(steps=200, batch_size=16, lr=0.1, device="cpu", progress=False)
        >>> history = train(model, loss, (x,), config)
        >>> history["loss"][-1] < 1e-3
        True
    """
    check_run(model, loss, config)
    return run_loop(model, loss, (data,), config, (config.seed,), param_groups, on_step)


def check_run(model: object, loss: object, config: object) -> None:
    """Raise an error unless these are a module, a function and a configuration."""
    check_module(model)
    if not callable(loss):
        raise wrong_type("loss", "a function of (model, batch, step)", loss, "see train's example")
    if not isinstance(config, TrainConfig):
        remedy = "try TrainConfig(steps=100, batch_size=32)"
        raise wrong_type("config", "a TrainConfig", config, remedy)


def run_loop(
    model: nn.Module,
    loss: Loss,
    data: Sequence[Data],
    config: TrainConfig,
    seeds: Sequence[int],
    param_groups: ParamGroups | None = None,
    on_step: OnStep | None = None,
) -> History:
    """Run the loop for one run, or for several whose models are stacked in ``model``.

    Args:
        model: as in :func:`train`.
        loss: as in :func:`train`; for several runs it takes batches (runs, examples, ...) and
            :class:`Steps`.
        data: data of each run.
        config: configuration that the runs share.
        seeds: seed of each run.
        param_groups: as in :func:`train`.
        on_step: as in :func:`train`.
    """
    several = len(seeds) > 1
    examples = count_examples(data[0])
    fabric = make_fabric(config)
    device, rank, world = fabric.device, fabric.global_rank, fabric.world_size
    graphed = wants_graph(config, device, world)
    with ExitStack() as stack:
        stack.enter_context(_random_state_kept(device))
        _lock(fabric, config, stack)
        model.train()
        objective = place(fabric, Objective(model, loss))
        optimizer = build_optimizer(model, config, param_groups, lr_tensor=graphed)
        checkpoints = None
        first, history = 0, History()
        if config.out is not None:
            checkpoints = Checkpoints(
                config.out,
                model,
                optimizer,
                config,
                examples,
                tuple(seeds),
                fingerprint(*data),
                learner_digest(loss),
            )
            first, history = _start(fabric, config, checkpoints)
            if checkpoints.threads is not None:  # sums are rounded by the number of threads
                stack.enter_context(torch_threads(checkpoints.threads))
        batches: Batches
        if several:
            batches = join_batches(data, config, seeds, device, first)
            step: Step = Steps(config.steps, seeds, device)
        else:
            batches = make_batches(data[0], config, device, rank, world, first)
            step = Step(config.steps, config.seed, device, rank, world)
            if graphed and isinstance(batches, PreparedBatches):
                numbers = batches.numbers(batches.data.steps)
                step = BlockStep(config.steps, config.seed, device, numbers)
        bad = None
        if config.optimiser.skip_bad:
            bad = SkipNonFinite(fabric, model, optimizer, checkpoints.skipped if checkpoints else 0)
        update = Update(fabric, objective, optimizer, batches, step, config, bad, several)
        advance: Update | GraphedUpdate = update
        block = None
        if isinstance(step, BlockStep) and isinstance(batches, PreparedBatches):
            block = BlockUpdate(update, batches, step, config)
            advance_block = GraphedUpdate(block, step, model, warm_up=1)
        elif graphed:
            advance = GraphedUpdate(update, step, model)
        log = Log(fabric, config, history, first, stack)
        interrupt = stack.enter_context(Interrupt())
        done = first
        while done < config.steps:
            before = done
            if block is not None and block.fits(done):
                metrics = advance_block(block.inputs(done))
                block.step.finish()
                done += block.count
            else:
                inputs = batches.inputs(done)
                step.begin(done)
                set_lr(optimizer, lr_factor(done, config))
                metrics = advance(inputs)
                done += 1
            if on_step is not None:
                try:
                    on_step(step, metrics)
                except KeyboardInterrupt:
                    interrupt.request()
            last = done == config.steps
            if before == 0 or last or due(before, done, config.logging.log_every):
                log.look(done, metrics, config.lr * lr_factor(done - 1, config), checkpoints)
            log.bar.step(done)
            stop = interrupt.requested
            if checkpoints is not None and (
                stop or last or due(before, done, config.logging.checkpoint_every)
            ):
                skipped = int(bad.count) if bad is not None else 0
                _save(fabric, checkpoints, model, done, history, log.seconds(), skipped)
            if stop:
                raise _interrupted(done, checkpoints)
            next_turn()
        seconds = log.seconds() - history.seconds
        history.steps_per_second = (config.steps - first) / seconds if first < config.steps else 0.0
        history.seconds += seconds
    return history


def _lock(fabric: "Fabric", config: TrainConfig, stack: ExitStack) -> None:
    """Lock the folder in the first process; if that fails, every process stops."""
    problem: Exception | None = None
    if config.out is not None and fabric.is_global_zero:
        try:
            stack.enter_context(folder_lock(config.out))
        except (FolderInUseError, OSError) as error:
            problem = error
    if fabric.world_size > 1:
        problem = fabric.broadcast(problem)
    if problem is not None:
        raise problem


def _start(fabric: "Fabric", config: TrainConfig, checkpoints: Checkpoints) -> tuple[int, History]:
    """Resume, or clear the folder of an earlier run."""
    resuming = config.resume and checkpoints.exists()
    if fabric.world_size > 1:
        resuming = fabric.broadcast(resuming)
    if resuming:
        return checkpoints.load()
    if fabric.is_global_zero:
        checkpoints.clear()
    return 0, History()


def _save(
    fabric: "Fabric",
    checkpoints: Checkpoints,
    model: nn.Module,
    done: int,
    history: History,
    seconds: float,
    skipped: int,
) -> None:
    try:
        check_weights(model, done)
    except NonFiniteError as error:
        raise NonFiniteError(f"{error}; {advice(history)}. {checkpoints.describe()}") from None
    if fabric.is_global_zero:
        checkpoints.save(done, history, seconds, skipped)


def _interrupted(done: int, checkpoints: Checkpoints | None) -> KeyboardInterrupt:
    error = KeyboardInterrupt(f"stopped after step {done}")
    if checkpoints is None:
        error.add_note("nothing was saved, because the run has no folder (out)")
    else:
        folder = checkpoints.folder
        error.add_note(f"a checkpoint is in {folder}; go on with out={str(folder)!r}, resume=True")
    return error


@contextmanager
def _random_state_kept(device: torch.device) -> Iterator[None]:
    """Restore the state of the global generators after the block."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
