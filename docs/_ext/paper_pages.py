"""Writes docs/papers/: the pages and notes of each reproduction in papers/, with their figures."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "papers"
PICTURE = re.compile(r"(\]\()figures/([^)]+\))")
NOTES = re.compile(r"\]\(NOTES\.md(#[^)]*)?\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|figures/|NOTES\.md)[^)]+\)")
INTRO = """# The five papers

Each paper's main claims, its numbers and ours. The rows are made from the stored results
(`papers/summary.py`). Each reproduction is a folder of `papers/`: `run.py` makes the tables,
`expected.json` holds the paper's numbers, `results.json` ours, with seed, commit and hardware.
From a checkout:

```console
$ symmetries reproduce genuine-invariance --quick
$ symmetries reproduce genuine-invariance 1
```

The first runs small data in a minute; the second runs one table, says how long it takes, and prints
the paper's numbers beside its own.

A claim *holds* if ours is at or above each number that the paper gives (within one standard
deviation over seeds where a curve is read), or within the goal that the paper's page names where it
has pictures; *in part* if that is so for some of the numbers or sets of the row. † A setting behind
these numbers was chosen with test results in view; the paper's page says which.

Two claims of relaxed equivariance are not settled, and not among these rows: learned relaxation
holds in part, in short runs, and whether more rotations are better cannot be told from one seed.
[Its page](relaxed-equivariance.md) has both.

"""


COVERAGE = """
## How much of them was run

Entries of each table, a number for each row and set, or panels of a figure (`papers/coverage.py`):

"""


def script(name: str) -> ModuleType:
    """``papers/NAME.py``."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "papers" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"papers/{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages() -> dict[str, str]:
    """Markdown by name. Figures are shown; other links into the folder become plain text."""
    found = {}
    for readme in sorted((ROOT / "papers").glob("*/README.md")):
        paper = readme.parent.name
        for name, source in ((paper, readme), (f"{paper}-notes", readme.with_name("NOTES.md"))):
            text = LINK.sub(r"\1", source.read_text())
            text = PICTURE.sub(rf"\1figures/{paper}/\2", text)
            found[name] = NOTES.sub(f"]({paper}-notes.md)", text)
    return found


def copy_figures() -> None:
    """Put the figures where the pages look for them."""
    for picture in (ROOT / "papers").glob("*/figures/*.png"):
        target = FOLDER / "figures" / picture.parents[1].name / picture.name
        if not target.exists() or target.stat().st_mtime < picture.stat().st_mtime:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(picture, target)


def write(app: Sphinx) -> None:
    """Write the pages; those that did not change are left alone, so that builds stay short."""
    found = pages()
    entries = "\n".join(found)
    table = script("summary").markdown(link="{paper}.md")
    table += COVERAGE + script("coverage").markdown()
    found["index"] = f"{INTRO}{table}\n```{{toctree}}\n:maxdepth: 1\n:hidden:\n\n{entries}\n```\n"
    FOLDER.mkdir(exist_ok=True)
    copy_figures()
    for path in FOLDER.glob("*.md"):
        if path.stem not in found:
            path.unlink()
    for name, text in found.items():
        path = FOLDER / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write, priority=100)
    return {"parallel_read_safe": True}
