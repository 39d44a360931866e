"""``python -m benchmarks.planted``: see :mod:`benchmarks.planted.run`."""

from benchmarks.planted.run import main

main()
