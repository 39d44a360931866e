"""Searches over settings: any number of processes on one study, bad runs stopped early."""

from symmetries.sweeps.config import SweepConfig, read_config
from symmetries.sweeps.study import collect, join

__all__ = ["SweepConfig", "collect", "join", "read_config"]
