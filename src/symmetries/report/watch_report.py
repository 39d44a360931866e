"""Report of ``symmetries watch``: whether a stream has changed, how, and what that costs."""

from collections.abc import Iterator

from symmetries.report import figures
from symmetries.report.lines import history
from symmetries.report.page import Answer, Page, Section, Strip, Table
from symmetries.report.page_blocks import drawing, run_settings
from symmetries.results import ChangedParameter, WatchResult

UNITS = {"degrees": "°", "pixels": " pixels", "factor": " times"}


def size_text(part: ChangedParameter) -> str:
    """An amount with its interval, or the limit that is known of it.

    Example:
        >>> from symmetries.results import ChangedParameter
        >>> part = ChangedParameter(name="rotation", amount=7.1, low=6, high=8.2, unit="degrees")
        >>> size_text(part)
        '7.1° (6 to 8.2)'
    """
    unit = UNITS[part.unit]
    if part.low is None and part.high is None:
        return "of unknown size"
    if part.low is None or part.high is None:
        known, word = (part.low, "at least") if part.high is None else (part.high, "at most")
        return f"{word} {known:.3g}{unit}"
    return f"{part.amount:.3g}{unit} ({part.low:.3g} to {part.high:.3g})"


def _named(part: ChangedParameter, result: WatchResult) -> str:
    """The size, with the parameter's name where that is not the name of the change."""
    name = "" if part.name == result.name else f"{part.name.replace('_', ' ')} "
    return name + size_text(part)


def loss_text(result: WatchResult) -> str:
    """What the change is expected to cost a model."""
    loss = result.loss
    if loss is None:
        return ""
    if loss.high is None:
        return f"at least {loss.low:.1f} points of {loss.score}"
    return f"{loss.points:.1f} points of {loss.score} ({loss.low:.1f} to {loss.high:.1f})"


def watch_page(result: WatchResult) -> Page:
    """The page of a stream; without pictures it shows numbers alone."""
    answers = [Answer("changed", "no", "absent")]
    lede = f"{result.pictures:,} pictures look like the reference."
    if result.alarm:
        sizes = "; ".join(_named(p, result) for p in result.parameters)
        answers = [Answer(str(result.name), sizes or "it has no name that is known")]
        lede = f"{result.pictures:,} pictures: they have changed after {result.since:,}."
        if result.loss is not None:
            answers.append(Answer("expected loss", loss_text(result)))
    return Page(
        title="Has the stream changed?",
        lede=lede,
        answers=answers,
        sections=list(_sections(result)),
        settings=run_settings(result.reference, result.run, str(result.name or "no change")),
        rerun=result.run.command,
        warnings=(),
    )


def _sections(result: WatchResult) -> Iterator[Section]:
    if result.examples is not None:
        text = "Some pictures of the reference, and the latest ones of the stream."
        yield Section("Before and now", text, list(_strips(result)))
    if len(result.trace) > 1:
        numbers, levels = zip(*result.trace, strict=True)
        axes = {"y_label": "log10 evidence", "x_label": "pictures of the stream"}
        drawn = drawing(
            lambda: history(numbers, levels, **axes), "evidence", "evidence over the stream"
        )
        text = (
            f"The largest evidence so far. There is an alarm at 10^{result.limit:.1f}: the "
            f"probability that it is ever reached where nothing changes is at most "
            f"{100 * result.alpha:g} %, whenever one looks."
        )
        yield Section("Evidence", text, [drawn])
    if result.parameters:
        rows = [(p.name.replace("_", " "), size_text(p)) for p in result.parameters]
        text = (
            f"The change explains {100 * (result.explained or 0):.0f} % of what differs from the "
            "reference. Intervals hold 95 %, and what several ways to move pictures allow."
        )
        if result.loss is not None:
            rows.append(("expected loss", loss_text(result)))
        yield Section("How much", text, [Table(("parameter", "amount"), rows)])


def _strips(result: WatchResult) -> Iterator[Strip]:
    pictures = result.examples
    for title, frames in (("reference", pictures.reference), ("stream", pictures.stream)):
        if len(frames):
            yield Strip(title, [(figures.picture_uri(frame), "") for frame in frames])
