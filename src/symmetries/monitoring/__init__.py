"""Watching a stream of pictures: has it changed, how, by how much, and since when?"""

from symmetries.monitoring.eprocess import ExchangeabilityTest
from symmetries.monitoring.naming import Change
from symmetries.monitoring.watcher import Finding, Watcher

__all__ = ["Change", "ExchangeabilityTest", "Finding", "Watcher"]
