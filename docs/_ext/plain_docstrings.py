"""Docstrings are plain text: |H| is a number of elements, and (*batch, 3) a shape, not markup."""

import re

from sphinx.application import Sphinx

# What is markup: ``literals``, `references` and :roles:`with text`. All else is text.
MARKUP = re.compile(r"(``.*?``|(?::[\w:]+:)?`[^`]*`_{0,2})")
STAR = re.compile(r"(?<!\w)\*(?=\w)(?![^*]*\w\*(?!\w))|(?<=\s)\*\*(?=\w)(?![^*]*\w\*\*)")


def escape(text: str) -> str:
    """A line with the bars and the lone stars of its text escaped.

    >>> print(escape("|H| elements (*batch, 3), *not* ``a|b``"))
    \\|H\\| elements (\\*batch, 3), *not* ``a|b``
    """
    parts = MARKUP.split(text)
    parts[::2] = [STAR.sub(r"\\\g<0>", part.replace("|", r"\|")) for part in parts[::2]]
    return "".join(parts)


def escape_docstring(lines: list[str]) -> list[str]:
    """The lines of a docstring, escaped except in examples and in directives such as math."""
    escaped = []
    verbatim_indent: int | None = None  # of a directive: what is indented deeper belongs to it
    in_example = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        content = line.strip()
        if content and verbatim_indent is not None and indent <= verbatim_indent:
            verbatim_indent = None
        if content.startswith(".. ") or content.endswith("::"):
            verbatim_indent = indent
        in_example = bool(content) and (in_example or content.startswith(">>>"))
        is_text = verbatim_indent is None and not in_example
        escaped.append(escape(line) if is_text else line)
    return escaped


def process(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    lines[:] = escape_docstring(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process, priority=100)  # before napoleon
    return {"parallel_read_safe": True}
