"""Benchmarks are scripts beside the package: tests find them from the root of the checkout."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
