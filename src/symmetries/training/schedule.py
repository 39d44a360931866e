"""Learning rate schedule, and when something is due that happens every so many steps."""

import math

from symmetries.training.config import TrainConfig


def lr_factor(step: int, config: TrainConfig) -> float:
    r"""Return the learning rate of a step as a multiple of ``config.lr``.

    Warm-up, for step < w: (step + 1) / w. Then, with t = (step - w) / (steps - w),
    "cosine" is f + (1 - f) (1 + cos(pi t)) / 2 where f = ``final``, and "constant" is 1.

    Args:
        step: from 0 to ``config.steps`` - 1.
        config: configuration of the run.

    Example:
        >>> config = TrainConfig(steps=10, batch_size=1).replace(warmup=0.2)
        >>> [round(lr_factor(step, config), 2) for step in (0, 1, 2, 6, 9)]
        [0.5, 1.0, 1.0, 0.5, 0.04]
    """
    warmup, final = config.warmup_steps, config.optimiser.final
    if step < warmup:
        return (step + 1) / warmup
    if config.optimiser.schedule == "constant":
        return 1.0
    progress = (step - warmup) / (config.steps - warmup)
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * progress))


def due(before: int, done: int, every: int) -> bool:
    """Whether a multiple of ``every`` was reached after ``before`` steps, with ``done`` of them.

    Example:
        >>> due(9, 10, 5), due(10, 11, 5), due(8, 16, 10)
        (True, False, True)
    """
    return done // every > before // every
