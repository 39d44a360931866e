"""Settings that every test shares."""

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
