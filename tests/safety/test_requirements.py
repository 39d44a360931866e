"""The requirements are those of the code: all of them, no others, and versions that were tried."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import symmetries

ROOT = Path(symmetries.__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {"scikit-learn": "sklearn", "pillow": "PIL", "lightning-fabric": "lightning_fabric"}


def bounds():
    found = {}
    for text in PROJECT["dependencies"]:
        name, _, version = text.partition(">=")
        found[name] = version
    return found


def imported():
    """Top names of everything that the package imports."""
    names = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"symmetries"}


def test_every_requirement_is_imported():
    # requests is what pooch downloads with.
    needed = {MODULES.get(name, name) for name in bounds()} - {"requests"}
    assert needed <= imported()


def test_everything_that_is_imported_is_required():
    optional = " ".join(text for part in PROJECT["optional-dependencies"].values() for text in part)
    required = {MODULES.get(name, name) for name in bounds()}
    required |= {name.replace("-", "_") for name in re.findall(r"[\w-]+", optional)}
    # Another name of lightning_fabric, and what jinja2 stands on.
    assert imported() - {"lightning", "markupsafe"} <= required


def test_the_lower_bounds_are_those_that_were_tried():
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    tried = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert bounds().keys() == tried.keys()
    for name, bound in bounds().items():
        if name != "torch":  # the comment in the file says which
            assert tuple(map(int, bound.split("."))) == tuple(
                map(int, tried[name].split(".")[: len(bound.split("."))])
            )
