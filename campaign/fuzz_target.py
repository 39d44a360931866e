"""One coverage-guided fuzzing run over one reader, in this process: ``fuzz_target.py NAME ...``.

Anything but a value or a ``ValueError`` with a message is a finding, as are a hang and too much
memory. libFuzzer's options follow the name.
"""

import sys
import warnings

import atheris

READERS = ("symmetries.data", "symmetries.results", "symmetries.training.checkpoint")
# Parsers that stand behind them: branches of these are what the fuzzer must find its way through.
PARSERS = ("numpy.lib._format_impl", "zipfile", "tarfile", "pickletools", "PIL")

with atheris.instrument_imports(include=[*READERS, *PARSERS], enable_loader_override=False):
    from readers import TARGETS, run

if __name__ == "__main__":
    name, *options = sys.argv[1:]
    warnings.simplefilter("ignore")
    atheris.Setup([sys.argv[0], *options], run(TARGETS[name]))
    atheris.Fuzz()
