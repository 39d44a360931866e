"""Hyper-parameter sweeps: any number of processes on one study, with pruning of bad trials."""

from symmetries.sweeps.config import SweepConfig, read_config
from symmetries.sweeps.study import collect, join

__all__ = ["SweepConfig", "collect", "join", "read_config"]
