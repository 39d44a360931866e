"""The page of a learner: what it has learned, how its loss fell, and its settings."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any

from symmetries.report.lines import history
from symmetries.report.orbit_report import title
from symmetries.report.page import Answer, Block, Page, Section, Table
from symmetries.report.page_blocks import drawing
from symmetries.report.prototype_report import capital

LONG = 4  # entries of a list that a table still shows


def learner_page(
    name: str,
    summary: Mapping[str, Any] | None,
    losses: Mapping[str, tuple[Sequence[int], Sequence[float]]],
    settings: Mapping[str, Any],
) -> Page:
    """Return the page of a learner.

    Args:
        name: of the learner.
        summary: its numbers as plain data; lists of mappings become tables, and "warnings" stand at
            the top.
        losses: steps and losses of each of its trainings, by name.
        settings: its configuration as plain data; parts are flattened.

    Example:
        >>> page = learner_page("VAE", {"bound": -1.5}, {}, {"network": {"latent": 2}})
        >>> page.answers[0].text, page.settings
        ('-1.5', {'network.latent': '2'})
        >>> learner_page("VAE", {"warnings": ["the data are few"]}, {}, {}).warnings
        ['The data are few']
    """
    sections = []
    answers: list[Answer] = []
    for key, value in (summary or {}).items():
        rows = _rows(value)
        if rows:
            sections.append(Section(title(key), blocks=[_table(rows)]))
        elif not isinstance(value, list | tuple | Mapping):
            answers.append(Answer(title(key), _text(value)))
    drawings = [_drawing(stage, *curve) for stage, curve in losses.items() if len(curve[0]) > 1]
    if drawings:
        sections.append(Section("Training", "The loss over the steps.", drawings, columns=True))
    lede = "What was learned, measured on the given data." if summary else "How it was trained."
    first = [capital(text) for text in (summary or {}).get("warnings", ())]
    return Page(name, lede, answers, sections, dict(_flat(settings)), warnings=first)


def _rows(value: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401 - plain data
    if isinstance(value, Mapping):
        return [{"name": name, "value": part} for name, part in value.items()]
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        return list(value)
    return []


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = [name for name, value in rows[0].items() if not _is_long(value)]
    body = [[_text(row.get(name)) for name in shown] for row in rows]
    return Table([title(name) for name in shown], body)


def _is_long(value: Any) -> bool:  # noqa: ANN401 - plain data
    return isinstance(value, Mapping | list | tuple) and len(value) > LONG


def _drawing(stage: str, steps: Sequence[int], losses: Sequence[float]) -> Block:
    least = min([0.0, *losses])  # the axis begins at 0
    figure = partial(history, steps, [loss - least for loss in losses], y_label="loss")
    return drawing(figure, stage, f"Loss of {stage} over the steps", title(stage))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _text(value)


def _text(value: Any) -> str:  # noqa: ANN401 - plain data
    if isinstance(value, Real) and not isinstance(value, bool | int):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return str(value)
