"""Report of ``symmetries prescribe``: how to augment, and what it should bring."""

from collections.abc import Iterator

from symmetries.report.page import Answer, Block, Code, Gallery, Page, Section, Table
from symmetries.report.page_blocks import picture_rows, run_settings
from symmetries.report.wrap_report import points
from symmetries.results import PrescribedMove, PrescribeResult

NAMES = {
    "rotation": "rotation",
    "shift": "shift",
    "zoom": "zoom",
    "flip_x": "mirror images",
    "light": "brightness",
    "erase": "erased squares",
    "mix": "one shear or change of light",
}


def amount_text(name: str, amount: float) -> str:
    """How far a move goes, for a person.

    Example:
        >>> amount_text("rotation", 66.0), amount_text("shift", 0.12), amount_text("zoom", 1.4)
        ('±66°', '±12 %', '×0.71 to ×1.40')
    """
    if name == "rotation":
        return f"±{amount:.0f}°"
    if name == "mix":
        return f"strength {100 * amount:.0f} %"
    if name in ("shift", "light"):
        return f"±{100 * amount:.0f} %"
    if name == "erase":
        return f"up to {100 * amount:.0f} %, from half of the pictures"
    if name == "zoom":
        return f"×{1 / amount:.2f} to ×{amount:.2f}"
    return "half of the pictures" if amount else "never"


def limited(move: PrescribedMove) -> str:
    """The classes that may not go as far as others."""
    less = {own: far for own, far in move.by_class.items() if far < move.amount - 1e-9}
    return "; ".join(f"{own} {amount_text(move.name, far)}" for own, far in less.items())


def rows_of(result: PrescribeResult) -> Iterator[tuple[str, str, str]]:
    """Each move, how far it goes, and which classes go less far."""
    for move in result.moves:
        yield NAMES[move.name], amount_text(move.name, move.amount), limited(move)


def prescribe_page(result: PrescribeResult) -> Page:
    """The page of a prescription; without pictures it shows the tables alone."""
    answers = [Answer(name, far + (f" ({less})" if less else "")) for name, far, less in
               rows_of(result)]  # fmt: skip
    if not answers:
        answers = [Answer("nothing", "no move helped", "absent")]
    return Page(
        title=f"How to augment {result.data.name}",
        lede=(
            f"Predicted gain: {points(result.gain)} of accuracy on pictures like these, and "
            f"{points(result.robustness)} on pictures that are moved as prescribed; small networks "
            f"without augmentation reach {100 * result.accuracy:.1f} %."
        ),
        answers=answers,
        sections=list(_sections(result)),
        settings=run_settings(result.data, result.run, ", ".join(m.name for m in result.moves))
        | {"networks": str(result.networks)},
        rerun=result.run.command,
        warnings=result.warnings,
    )


def _sections(result: PrescribeResult) -> Iterator[Section]:
    if result.pictures is not None and result.moves:
        text = "Each class at both edges of what is prescribed: do you still read its label?"
        yield Section("At the edges", text, [_gallery(result, move) for move in result.moves])
    if result.conflicts:
        meetings = [
            (
                f"{c.first} and {c.second}",
                NAMES[c.name],
                amount_text(c.name, c.amount),
                f"{100 * c.share:.0f} %",
                amount_text(c.name, c.limit),
            )
            for c in result.conflicts
        ]
        header = ("classes", "move", "meet at", "of their pictures", "may go")
        text = "Moved that far, pictures of each class look like the other one's."
        yield Section("What labels forbid", text, [Table(header, meetings)])
    tried = [
        ("; ".join(f"{NAMES[n]} {amount_text(n, a)}" for n, a in t.amounts.items()), points(t.gain))
        for t in result.tried
    ]
    text = "With small networks on held-out pictures; classes go as far as their labels allow."
    blocks: list[Block] = [Table(("augmentation", "gain"), tried)]
    yield Section("What was tried", text, blocks)
    if result.curves:
        shown = [
            (
                NAMES[c.name],
                " ".join(f"{100 * a:.0f}" for a in c.accuracy),
                f"{100 * c.within:.1f} %",
            )
            for c in result.curves
        ]
        columns = ("move", "accuracy from one end to the other (%)", "within what is prescribed")
        yield Section("The given model", blocks=[Table(columns, shown)])
    for library, text in result.code.items():
        yield Section(f"For {library}", blocks=[Code(text)])


def _gallery(result: PrescribeResult, move: PrescribedMove) -> Gallery:
    pictures = result.pictures
    pairs = zip(pictures.labels, pictures.amounts[move.name], strict=True)
    names = [f"{label} {amount_text(move.name, far)}" for label, far in pairs]
    rows = picture_rows(names, pictures.frames[move.name])
    return Gallery(
        [("one edge", 1), ("as it is", 1), ("the other", 1)], rows, title=NAMES[move.name]
    )
