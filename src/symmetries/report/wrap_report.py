"""Report of ``symmetries wrap``: what a canonicaliser in front of a frozen model brings."""

from collections.abc import Iterator

from symmetries.report.orbit_report import quantity, title
from symmetries.report.page import Answer, Block, Gallery, Page, Section, Table
from symmetries.report.page_blocks import picture_rows, run_settings
from symmetries.results import Compared, Estimate, WrapResult


def percent(found: Estimate) -> str:
    """Return a share with its interval, in per cent."""
    return f"{100 * found.mean:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f})"


def points(found: Estimate) -> str:
    """Return a difference with its interval, in points."""
    text = f"{found.mean:+.1f} points ({found.low:+.1f} to {found.high:+.1f})"
    return text.replace("-", "\N{MINUS SIGN}")


def rule_words(result: WrapResult) -> str:
    """Return the rule that was chosen, in one sentence."""
    if result.threshold is None:
        return "No picture is moved: the wrapped model is the bare one."
    how = "moved to its most likely pose"
    if result.rule == "views":
        how = f"seen in {result.views} poses, weighted by their probabilities,"
    more = f"{result.threshold:g} nats" if result.threshold else "anything"
    return f"A picture is {how} if that pose is more likely than its own by more than {more}."


def rows_of(result: WrapResult) -> Iterator[tuple[str, ...]]:
    """Yield the numbers as rows: pictures, bare model, wrapped model, gain, share that is moved."""
    parts: tuple[tuple[str, Compared], ...] = (
        ("as they are", result.untouched),
        ("moved", result.moved),
    )
    for name, part in parts:
        moves = f"{100 * part.moves:.0f} %"
        yield name, percent(part.bare), percent(part.wrapped), points(part.gain), moves


HEADER = ("pictures", "bare model", "wrapped model", "gain", "moved by it")


def wrap_page(result: WrapResult) -> Page:
    """Return the page of a wrap result; without pictures it shows the tables alone."""
    answers = [
        Answer("moved pictures", f"{points(result.moved.gain)} of {result.score}"),
        Answer("pictures as they are", points(result.untouched.gain)),
    ]
    lede = f"{title(result.model)} behind a canonicaliser for {result.group.replace(',', ', ')}. "
    return Page(
        title="A frozen model, wrapped",
        lede=lede + rule_words(result),
        answers=answers,
        sections=list(_sections(result)),
        settings=_settings(result),
        rerun=result.run.command,
        warnings=result.warnings,
    )


def _sections(result: WrapResult) -> Iterator[Section]:
    ranges = ", ".join(
        f"{title(r.name)} {quantity(r.low, r.unit)} to {quantity(r.high, r.unit)}"
        for r in result.range
    )
    about = (
        f"{result.score[0].upper()}{result.score[1:]} on {result.measured_on:,} held-out pictures "
        f"that had no part in the choice, with 95 % intervals; moved by {ranges or 'all elements'}."
    )
    if result.pose_error is not None:
        about += f" Median error of the angle that was read: {result.pose_error:.1f}°."
    yield Section("Before and after", about, [Table(HEADER, list(rows_of(result)))])
    if result.pictures is not None:
        yield Section("What the model sees", blocks=[_gallery(result)])
    if result.classes:
        rows = [
            (row.name, str(row.examples), *(f"{100 * v:.1f}" for v in (*row.untouched, *row.moved)))
            for row in result.classes
        ]
        header = ("class", "pictures", "as they are", "wrapped", "moved", "wrapped")
        text = "Classes that a move turns into each other, such as 6 and 9, show here."
        yield Section("By class", text, [Table(header, rows)])
    rows = [
        (
            one.rule + (f", {one.threshold:g} nats" if one.threshold is not None else ""),
            f"{one.loss:.2f} ± {one.loss_error:.2f}",
            f"{100 * one.moved:.1f} %",
            "yes" if one.allowed else "no",
        )
        for one in result.candidates
    ]
    text = (
        f"On {result.chosen_on:,} other held-out pictures: of the rules by which pictures as they "
        f"are lose at most {result.limit:g} points, standard error included, the one with the best "
        "score on moved pictures."
    )
    blocks: list[Block] = [Table(("rule", "loss as they are", "moved", "allowed"), rows)]
    yield Section("How the rule was chosen", text, blocks)
    yield Section("What it costs", blocks=list(_costs(result)))


def _gallery(result: WrapResult) -> Gallery:
    pictures = result.pictures
    rows = picture_rows(pictures.labels, pictures.frames)
    return Gallery([("reference", 1), ("moved", 1), ("seen by the model", 1)], rows)


def _costs(result: WrapResult) -> Iterator[Block]:
    rows = [(str(o.pictures), f"{o.bare:.2f} ms", f"{o.wrapped:.2f} ms") for o in result.latency]
    yield Table(("pictures a call", "bare model", "wrapped model"), rows)
    if result.files:
        header = ("file", "size", "largest difference from the module", "largest output")
        about = [
            (f.name, f"{f.size / 2**20:.1f} MiB", f"{f.difference:.1e}", f"{f.scale:.3g}")
            for f in result.files
        ]
        compared = f"compared on {result.files[0].pictures} pictures, moved ones among them"
        yield Table(header, about, caption=compared)


def _settings(result: WrapResult) -> dict[str, str]:
    found = run_settings(result.reference, result.run, result.group)
    found |= {"output": result.output, "views": str(result.views)}
    if result.preprocessing is not None:
        found["inside the files"] = str(result.preprocessing)
    return found | ({"notes": "; ".join(result.notes)} if result.notes else {})
