"""Imports go one way. This parses every import of the package and fails on a wrong direction."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import symmetries

PACKAGE = Path(symmetries.__file__).parent

# Each part of the package, and the parts it may import. Every part may import itself.
GROUND = {"_utils", "_validation", "ops"}
ALGEBRA = GROUND | {"groups", "actions", "distributions"}
MODELS = ALGEBRA | {"auditing", "data", "learners", "lie", "nn", "results", "training"}
ALLOWED = {
    "__main__": {"cli"},
    "_utils": {"_validation"},
    "audit": {"analysis", "auditing"},
    "_validation": set(),
    "ops": {"_utils", "_validation"},
    "groups": GROUND,
    "distributions": GROUND | {"groups"},
    "actions": GROUND | {"groups"},
    "lie": GROUND | {"groups"},
    "testing": GROUND | {"groups", "actions"},
    "auditing": GROUND | {"groups", "actions", "results"},
    "data": ALGEBRA,
    "training": GROUND | {"data", "results"},
    "nn": ALGEBRA,
    "results": set(),
    "monitoring": ALGEBRA | {"data", "training"},
    "report": {"results"},
    "learners": MODELS - {"learners"} | {"report"},
    "estimators": MODELS,
    "analysis": MODELS | {"estimators", "monitoring"},
    "sweeps": MODELS,
    "cli": MODELS | {"analysis", "estimators", "monitoring", "report", "sweeps"},
}

# These stand beside the groups, not on them.
BESIDE_THE_GROUPS = {("nn", "perceptron")}

# Outside ops/ only its public modules may be imported: nothing with an underscore, no kernels.
INSIDE_OPS = ("triton", "cuda")

# The one exception: a result draws itself, and imports what draws when it is asked to.
DRAWING = "results/showing.py"

# Foreign modules that only some parts may import.
ONLY_IN = {
    "matplotlib": {"report"},
    "jinja2": {"report"},
    "typer": {"cli"},
    "optuna": {"sweeps"},
    "sklearn.base": {"estimators"},
}
# Parts that read plain results and must not import these.
NEVER = {"report": {"torch"}, "results": {"torch", "numpy"}}


def imported_names(source: str) -> Iterator[str]:
    """Dotted names that a source imports, at any depth; relative imports start with a dot."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "importlib.import_module":
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def starts_with(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def violations(path: str, source: str) -> list[str]:
    """What is wrong with the imports of the file at ``path``, relative to the package."""
    parts = Path(path).with_suffix("").parts
    part = parts[0]
    if part == "__init__":  # the package's face: public names of every part
        return []
    if part not in ALLOWED:
        return [f"{path}: '{part}' is not part of the architecture"]
    found = []
    for name in imported_names(source):
        if name.startswith("."):
            found.append(f"{path}: relative import {name}")
        for foreign, owners in ONLY_IN.items():
            if starts_with(name, foreign) and part not in owners:
                found.append(f"{path}: {foreign} belongs in {sorted(owners)}")
        for foreign in NEVER.get(part, ()):
            if starts_with(name, foreign):
                found.append(f"{path}: {part} must not import {foreign}")
        if starts_with(name, "symmetries"):
            found.extend(internal_violations(path, parts, name.split(".")[1:]))
    return found


def internal_violations(path: str, parts: tuple[str, ...], target: list[str]) -> list[str]:
    part = parts[0]
    if not target or target[0] == "__version__":
        return []
    if path == DRAWING and target == ["report"]:
        return []
    if target[0] == "ops" and part != "ops":
        inside = [name for name in target[1:] if name.startswith("_") or name in INSIDE_OPS]
        if inside:
            return [f"{path}: {'.'.join(target)} is private to ops"]
    if target[0] != part:
        wrong = target[0] not in ALLOWED[part]
        if parts in BESIDE_THE_GROUPS:
            wrong = target[0] not in GROUND
        if target[:2] == ["nn", "perceptron"] and part == "distributions":
            wrong = False
        return [f"{path}: {part} must not import {target[0]}"] if wrong else []
    shared = [[parts[1]], ["base"]]  # what learners have in common is in learners/base.py
    is_sibling = part == "learners" and parts[1] != "__init__" and target[1:2] not in shared
    return [f"{path}: learners must not import each other"] if is_sibling else []


def test_imports_go_one_way():
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        found += violations(str(file.relative_to(PACKAGE)), file.read_text())
    assert found == []


def test_the_allowed_directions_have_no_cycle():
    placed: set[str] = set()
    while len(placed) < len(ALLOWED):
        ready = {part for part, below in ALLOWED.items() if part not in placed and below <= placed}
        assert ready, f"cycle among {sorted(set(ALLOWED) - placed)}"
        placed |= ready


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("groups/affine.py", "from symmetries.actions.images import ImageAction"),
        ("groups/affine.py", "from symmetries import actions"),
        ("groups/affine.py", "from ..actions import ImageAction"),
        ("groups/affine.py", "def f():\n    import symmetries.learners.vae"),
        ("ops/warp.py", "from symmetries.groups import Affine2"),
        ("auditing/metrics.py", "from symmetries.learners.vae import VAE"),
        ("learners/vae.py", "from symmetries.learners.relaxed import Relaxed"),
        ("learners/vae.py", "from symmetries.learners import relaxed"),
        ("report/page.py", "import torch"),
        ("results/base.py", "import importlib\nimportlib.import_module('symmetries.report')"),
        ("results/showing.py", "from symmetries.report import page"),
        ("report/page.py", "from torch import Tensor"),
        ("results/base.py", "from symmetries.groups import Affine2"),
        ("nn/orbit_average.py", "import matplotlib.pyplot as plt"),
        ("learners/vae.py", "from sklearn.base import BaseEstimator"),
        ("helpers/misc.py", "import math"),
        ("nn/orbit.py", "from symmetries.ops._dispatch import usable"),
        ("training/optim.py", "def f():\n    from symmetries.ops.cuda.adam_cuda import move"),
        ("learners/vae.py", "from symmetries.ops.triton.elbo import Elbo"),
        ("learners/vae.py", "from symmetries.ops import _dispatch"),
    ],
)
def test_a_wrong_import_is_found(path, source):
    assert violations(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("actions/images.py", "from symmetries.ops.warp import warp"),
        ("learners/vae.py", "from symmetries.auditing.metrics import invariance"),
        ("learners/__init__.py", "from symmetries.learners.vae import VAE"),
        ("data/digits.py", "from sklearn.datasets import load_digits"),
        ("results/showing.py", "import importlib\nimportlib.import_module('symmetries.report')"),
        ("report/figures.py", "from matplotlib.figure import Figure"),
        ("cli/__init__.py", "from symmetries import __version__"),
        ("nn/orbit.py", "from symmetries.ops.orbit_mean import orbit_mean"),
        ("nn/orbit.py", "from symmetries.ops import disabled"),
    ],
)
def test_a_right_import_passes(path, source):
    assert violations(path, source) == []
