"""The project's own files: versions that agree, and nothing of the machine they were written on."""

import ast
import os
import re
import subprocess
import tomllib
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import symmetries

ROOT = Path(__file__).parents[1]
PACKAGE = Path(symmetries.__file__).parent

# Homes and mounts of a machine, and package indexes: neither means anything elsewhere.
FOREIGN = re.compile(
    r"(?<![\w.~])/(?:root|work|opt|Users|mnt|srv)/[\w.]|(?<![\w.~])/home/\w+/|/tmp/\w"
    r"|index[-_][u]rl|find[-_]links|/simple/\w",
    re.IGNORECASE,
)


def foreign(text: str) -> list[str]:
    return [match[0] for match in FOREIGN.finditer(text)]


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_tracked_file_names_a_place_of_one_machine():
    found = {}
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if foreign(text):
            found[str(path.relative_to(ROOT))] = foreign(text)
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "/" + "work/main/src",
        "see /" + "root/.cache",
        "'/" + "home/ada/data/'",
        "pip install --find" + "-links x",
        "https://packages.example/" + "simple/torch",
    ],
)
def test_a_place_of_one_machine_is_found(text):
    assert foreign(text)


@pytest.mark.parametrize("text", ["work/main", "/usr/bin/env bash", "a/opt/b", "~/opt/x", "10/opt"])
def test_other_paths_pass(text):
    assert foreign(text) == []


def test_the_version_is_the_same_everywhere():
    version = symmetries.__version__
    changelog = re.search(r"^## \[Unreleased\] - (\S+)|^## \[(\S+)\]", read("CHANGELOG.md"), re.M)
    assert (changelog[1] or changelog[2]) == version
    assert re.search(r"^version: (\S+)$", read("CITATION.cff"), re.M)[1] == version
    assert metadata.version("symmetries") == version


def test_constraints_are_exact():
    lines = [line for line in read("constraints.txt").splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    assert "torch==2.13.0" in lines


def test_constraints_fit_the_ranges_and_leave_nothing_out():
    pins = dict(line.split("==") for line in read("constraints.txt").splitlines() if "==" in line)
    pins = {canonicalize_name(name): version for name, version in pins.items()}
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"].values()
    for requirement in map(Requirement, chain(project["dependencies"], *extras)):
        # torch's build names its triton; torchvision, which timm needs, must fit that build.
        if requirement.name in ("symmetries", "triton", "timm", "torchvision"):
            continue
        assert pins[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_ci_runs_the_test_command_first():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if line.startswith("make ")]
    assert commands[0] == "make test"


def test_the_package_ships_its_types_and_templates():
    assert (PACKAGE / "py.typed").exists()
    for name in ("page.html", "page.css", "page.js"):
        assert (PACKAGE / "report" / "templates" / name).exists()


def test_the_library_raises_errors_and_asserts_nothing():
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert)
    ]
    assert found == []


def test_pictures_in_the_repository_are_small():
    large = [path for path in tracked_files() if path.suffix == ".png" and size(path) > 300_000]
    assert large == []


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def size(path: Path) -> int:
    return path.stat().st_size
