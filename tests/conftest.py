"""Settings that every test shares."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# The same examples in every run, few enough for make test, and no clock: machines differ.
settings.register_profile("tests", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("tests")


def pytest_collection_modifyitems(config, items):
    """Deselect tests of compiled kernels where there is no GPU."""
    if any("gpu" in item.keywords for item in items):
        import torch

        if not torch.cuda.is_available():
            deselected = [item for item in items if "gpu" in item.keywords]
            config.hook.pytest_deselected(items=deselected)
            items[:] = [item for item in items if "gpu" not in item.keywords]


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a command in this process, in an empty folder."""
    from typer.testing import CliRunner

    from symmetries.cli import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    runner = CliRunner()
    return lambda *arguments: runner.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="session")
def fork_server():
    """A process with the library in it, which forks others."""
    path = Path(__file__).with_name("fork_server.py")
    spec = importlib.util.spec_from_file_location("fork_server", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.ForkServer()
    yield server
    server.close()


SCRIPT = """
import runpy, sys
from pathlib import Path
sys.argv = sys.argv[1:]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="session")
def start_script(fork_server):
    """Start a script in a process of its own, with the imports done already."""

    def start(path, *arguments, **names):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **names}
        words = [str(path), *map(str, arguments)]
        return fork_server.start(SCRIPT, words, environment, Path.cwd())

    return start


@pytest.fixture(scope="session")
def run_script(start_script):
    """Run a script in a process of its own, with the imports done already: what it printed."""

    def run(path, *arguments, **names):
        process = start_script(path, *arguments, **names)
        out, said = process.communicate(timeout=300)
        assert process.returncode == 0, out[-2000:] + said[-2000:]
        return out

    return run


@pytest.fixture(scope="session")
def hooks():
    """A function that draws corners in known poses: planted truths of a second or two."""

    def draw(n, turn, seed=0, side=16, poses=1):
        """Corners (n, side, side) turned by up to ``turn`` degrees from poses, and the angles."""
        rng = np.random.default_rng(seed)
        angle = np.deg2rad(rng.uniform(-turn, turn, (n, 1, 1)))
        if poses > 1:
            angle += 2 * np.pi / poses * rng.integers(poses, size=(n, 1, 1))
        length = rng.uniform(0.4, 0.7, (n, 1, 1))
        axis = (np.arange(side) * 2 + 1 - side) / side
        x, y = axis[None, None], -axis[None, :, None]
        u, v = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
        stem = np.hypot(u, np.clip(np.abs(v) - length, 0, None))
        arm = np.hypot(v - length, np.clip(np.abs(u - length / 2) - length / 2, 0, None))
        return np.clip(1.5 - 6 * np.minimum(stem, arm), 0, 1), np.rad2deg(angle[:, 0, 0])

    return draw
