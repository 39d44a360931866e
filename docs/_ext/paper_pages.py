"""Writes docs/papers/: the page of each reproduction, from its README in papers/."""

import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "papers"
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)[^)]+\)")
INTRO = """# Papers

Each reproduction is a folder of `papers/`: `run.py` makes the tables, `expected.json` holds the
paper's numbers, `README.md` says what was done where the paper is silent. From a checkout:

```console
$ symmetries reproduce genuine-invariance --quick
```

"""


def pages() -> dict[str, str]:
    """Markdown by name of the paper. Links into the folder become plain text."""
    found = {}
    for readme in sorted((ROOT / "papers").glob("*/README.md")):
        found[readme.parent.name] = LINK.sub(r"\1", readme.read_text())
    return found


def write(app: Sphinx) -> None:
    """Write the pages; those that did not change are left alone, so that builds stay short."""
    found = pages()
    entries = "\n".join(found)
    found["index"] = f"{INTRO}```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n"
    FOLDER.mkdir(exist_ok=True)
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
