"""Report of ``symmetries audit``: whether a classifier is invariant, and for the right reason."""

from collections.abc import Sequence

import numpy as np

from symmetries.report import figures
from symmetries.report.audit_words import (
    answer_words,
    class_name,
    counted,
    logit_words,
    measure_rows,
    range_words,
    verdict,
)
from symmetries.report.lines import shares
from symmetries.report.orbit_report import quantity, spread, title
from symmetries.report.page import Answer, Block, Gallery, OrbitViewer, Page, Section, Table
from symmetries.report.page_blocks import drawing, orbit_viewer, picture_rows, run_settings
from symmetries.results import AuditResult, DriftPoint, LayerError
from symmetries.results.audits import OWN_OPERATIONS
from symmetries.results.pictures import AuditPictures, Track

MOST_ROWS = 30
WHOLE = "the model itself"
PER = {"rad": (0.0174532925, "per degree"), "log-factor": (0.01, "per 1 %")}


def audit_page(result: AuditResult) -> Page:
    """Return the page for an audit; a result that was read from a file has no pictures."""
    pictures: AuditPictures | None = result.pictures
    left_out = None if pictures is None else pictures.left_out
    missing = f" Measures that need gradients are left out: {left_out}." if left_out else ""
    of_data = "" if result.data is None else f" of {result.data.name}"
    settings = {} if result.model is None else {"model": result.model}
    if result.preprocessing is not None:
        settings["images"] = str(result.preprocessing)
    if result.data is not None and result.run is not None:
        settings |= run_settings(result.data, result.run, result.group)
    return Page(
        title=f"Is it {_law(result)} to {title(result.group).replace(',', ', ')}?",
        lede=verdict(result),
        note=" ".join(
            [
                f"Measured on {result.examples:,} {counted(result)}{of_data}, "
                f"{result.elements} transformations each.{missing}",
                *([range_words(result)] if result.range else []),
                *(f"{note[0].upper()}{note[1:]}." for note in result.notes if note != left_out),
            ]
        ),
        answers=[Answer(name, text) for name, text in answer_words(result)],
        sections=[
            *([] if pictures is None else _picture_sections(pictures, result.accuracy is not None)),
            *_class_sections(result),
            *_curve_sections(result),
            *_drift_sections(result.drift),
            *_layer_sections(result),
            *_lie_sections(result),
            Section("The numbers", _more(result), blocks=[_table(result)]),
        ],
        settings=settings,
        rerun="" if result.run is None else result.run.command,
    )


def _law(result: AuditResult) -> str:
    moving = ("map", "boxes", "points", "vector", "energy", "own")
    return "equivariant" if result.output in moving else "invariant"


def _picture_sections(pictures: AuditPictures, labelled: bool) -> list[Section]:
    right = "the right class" if labelled else "the class that it predicts for the image as it is"
    share = "accuracy" if labelled else "share of such predictions"
    of = "" if pictures.averaged is None else f", over {pictures.averaged:,} images"
    sections = [
        Section(
            "Along the orbit",
            "Drag a slider to move the examples. The curve is the mean probability that the "
            f"model gives to {right}{of}; the dashed line is its {share}.",
            blocks=[_viewer(track, pictures.labels, share) for track in pictures.tracks],
            columns=True,
        )
    ]
    if pictures.saliency is None:
        return sections
    poses = pictures.saliency.shape[1] - 1
    rows = picture_rows(pictures.labels, pictures.saliency)
    text = (
        "Saliency maps of the same image in several poses, each transformed back. A model that is "
        "invariant for the right reason looks at the same pixels every time."
    )
    gallery = Gallery((("picture", 1), ("pixels that matter, by pose", poses)), rows)
    return [*sections, Section("Where it looks", text, blocks=[gallery])]


def _viewer(track: Track, labels: Sequence[str], share: str) -> OrbitViewer:
    steps = track.labels or [quantity(value, track.unit) for value in track.values]
    ticks = [(float(i), steps[i]) for i in spread(len(steps), 5)]
    curve = drawing(
        lambda: figures.answers(track.probability, track.accuracy, ticks=ticks),
        f"track {track.name}",
        f"Answers of the model along {title(track.name)}.",
    )
    worst = int(np.argmin(track.accuracy))
    text = f"Lowest {share}: {100 * track.accuracy[worst]:.0f} % at {steps[worst]}."
    start = 0 if track.unit == "elements" else None
    return orbit_viewer(title(track.name), text, track.frames, labels, steps, curve, start=start)


def _class_sections(result: AuditResult) -> list[Section]:
    """Return a table by class, the least stable first."""
    rows = sorted(result.by_class, key=lambda row: (row.agreement, -row.examples))
    if len(rows) < 2:
        return []
    shown = []
    for row in rows[:MOST_ROWS]:
        cells = [class_name(result, row.label), f"{row.examples:,}"]
        cells += [f"{100 * row.agreement:.0f} % ({100 * row.low:.0f} to {100 * row.high:.0f})"]
        changed = "" if row.becomes is None else class_name(result, row.becomes)
        cells += [f"{changed}, {100 * row.becomes_share:.0f} %" if changed else ""]
        if row.accuracy is not None and row.accuracy_moved is not None:
            cells += [f"{100 * row.accuracy:.0f} %", f"{100 * row.accuracy_moved:.0f} %"]
        shown.append(cells)
    header = ["class", counted(result), "same prediction when moved", "else mostly"]
    header += ["accuracy", "when moved"] if len(shown[0]) > len(header) else []
    text = "Classes whose predictions change most often come first."
    if result.accuracy is None:
        text += " There are no labels: the class is the one predicted for the image as it is."
    if len(rows) > MOST_ROWS:
        text += f" The first {MOST_ROWS} of {len(rows)} are shown; the JSON file has all."
    return [Section("Class by class", text, blocks=[Table(header, shown)])]


def _drift_sections(rows: Sequence[DriftPoint]) -> list[Section]:
    if not rows:
        return []
    looks = [row.saliency_similarity for row in rows if row.saliency_similarity is not None]
    header = ["blended", "accuracy", "logit invariance error", "change of the probabilities (KL)"]
    header += ["saliency similarity"] if looks else []
    shown = []
    for row in rows:
        cells = [f"{100 * row.beta:.0f} %", f"{100 * row.accuracy.mean:.1f} %"]
        cells += [f"{row.logit_invariance.mean:.3g}", f"{row.distribution_invariance.mean:.3g}"]
        if row.saliency_similarity is not None:
            cells.append(f"{row.saliency_similarity.mean:.2f}")
        shown.append(cells)
    lines = {"accuracy": [row.accuracy.mean for row in rows]}
    if looks:
        lines["saliency similarity"] = [measure.mean for measure in looks]
    text = (
        "Images blended step by step into others of the same classes. Invariance that is only "
        "learned on the training data is lost on the way; invariance that is built in stays."
    )
    alt = "Accuracy and saliency similarity by degree of drift."
    drawn = drawing(lambda: shares([row.beta for row in rows], lines), "drift", alt)
    blocks: list[Block] = [drawn, Table(header, shown)]
    return [Section("Drift to other data", text, blocks=blocks)]


def _with_error(value: float, error: float | None) -> str:
    return f"{value:.2g}" + ("" if error is None else f" ± {error:.1g}")


def _layer_sections(result: AuditResult) -> list[Section]:
    measured = [one for one in result.layers if one.error is not None or one.added is not None]
    if not measured:
        return []
    ranked = sorted(
        measured, key=lambda layer: (layer.added_beyond, layer.added or 0.0), reverse=True
    )
    header = ["layer", "output", "law", "adds", "resampling adds", "error", "resampling alone"]
    rows = [_layer_row(layer) for layer in ranked[:MOST_ROWS]]
    kept = [c for c in range(len(header) + 1) if any(row[c] for row in rows)]
    text = (
        "What each layer adds to the error of the output, relative to its size: the change of the "
        "output if this layer alone sees its input moved, and its output moved back. Beside it, "
        "how far its output is from moving with the input (equivariance) or from not changing "
        "(invariance), relative to its size; that includes what the layers before it did. Own "
        "operations are those of a module between its layers: sums, positions, attention."
    )
    if any(layer.law == "regular" for layer in result.layers):
        text = (
            "How far each layer is from moving with the input (equivariance) or from not changing "
            "(invariance), relative to the size of its output, and how much of it resampling "
            "explains. Regular: its channels stand for poses, and change places as the input "
            "moves; what single layers add is not measured then."
        )
    if len(ranked) > MOST_ROWS:
        text += f" The first {MOST_ROWS} of {len(ranked)} are shown; the JSON file has all."
    titles = [*header, "relaxed"]
    table = Table([titles[c] for c in kept], [[row[c] for c in kept] for row in rows])
    blocks = _block_rows(measured) if len(ranked) > MOST_ROWS else []
    if blocks:
        text += " The first table adds the squares of what the layers of a block add."
        by_block = Table(("block", "layers", "adds beyond resampling"), blocks[:MOST_ROWS])
        return [Section("Layer by layer", text, blocks=[by_block, table])]
    return [Section("Layer by layer", text, blocks=[table])]


def _block_rows(layers: Sequence[LayerError]) -> list[tuple[str, str, str]]:
    """Return what blocks of layers add, the largest first; a block is a name up to its last dot."""
    sums: dict[str, list[float]] = {}
    for layer in layers:
        if layer.added is not None:
            block = layer.name if layer.law == OWN_OPERATIONS else layer.name.rpartition(".")[0]
            sums.setdefault(block or layer.name or WHOLE, []).append(layer.added_beyond)
    ranked = sorted(sums.items(), key=lambda item: -sum(item[1]))
    return [(name, str(len(own)), f"{max(sum(own), 0.0) ** 0.5:.2g}") for name, own in ranked]


def _layer_row(layer: LayerError) -> list[str]:
    error = "" if layer.error is None else _with_error(layer.error, layer.standard_error)
    return [
        layer.name or WHOLE,
        " × ".join(map(str, layer.shape)),
        layer.law,
        "" if layer.added is None else f"{layer.added:.2g}",
        "" if layer.added_alone is None else f"{layer.added_alone:.2g}",
        error,
        "" if layer.discretisation is None else f"{layer.discretisation:.2g}",
        ", ".join(f"{name} {value:.3g}" for name, value in (layer.relaxation or {}).items()),
    ]


def _lie_sections(result: AuditResult) -> list[Section]:
    rows = [row for row in result.lie if not row.name]
    if not rows:
        return []
    shown = []
    for row in rows:
        factor, per = PER.get(row.unit, (1.0, f"per {row.unit}"))
        alone = row.error.discretisation
        cells = [row.parameter, f"{factor * row.error.mean**0.5:.3g} {per}"]
        cells += ["" if alone is None else f"{factor * alone**0.5:.3g}"]
        shown.append([*cells, f"{factor * row.rounding**0.5:.1g}"])
    text = (
        "How fast the outputs change as each parameter moves away from 0, in root mean square "
        "over their components: the Lie derivative (local equivariance error, Gruver et al. 2022), "
        "with what resampling and rounding alone contribute, in the same unit."
    )
    header = ("parameter", "change", "resampling alone", "rounding")
    return [Section("How fast it breaks", text, blocks=[Table(header, shown)])]


def _curve_sections(result: AuditResult) -> list[Section]:
    if not result.saliency_curve:
        return []
    rows = [
        (
            f"{point.threshold:.1f}",
            "not measured" if point.similarity is None else f"{point.similarity.mean:.2f}",
            f"{point.pixels:.1f}",
        )
        for point in result.saliency_curve
    ]
    kept = [point for point in result.saliency_curve if point.similarity is not None]
    blocks: list[Block] = []
    if len(kept) > 1:
        similar = [point.similarity.mean for point in kept if point.similarity is not None]
        places, lines = [point.threshold for point in kept], {"saliency similarity": similar}
        alt = "Saliency similarity by threshold."
        blocks.append(drawing(lambda: shares(places, lines), "saliency curve", alt))
    text = (
        "How similar the salient pixels are when an image is moved depends on what is called "
        "salient: all that is above a share of the largest value. Where fewer than two pixels are "
        "left, they agree or disagree by chance, and nothing is said. The paper's share is 0.9."
    )
    header = ("share of the largest", "similarity", "pixels of an image")
    return [Section("Salient by how much", text, blocks=[*blocks, Table(header, rows)])]


def _more(result: AuditResult) -> str:
    """Explain the logit error, and suggest a measure that was not made."""
    if result.drift or result.accuracy is None:
        return logit_words(result)
    return (logit_words(result) + " " if result.margin else "") + (
        "Does the invariance hold on other data? Run the command again with --drift-to DATA to "
        "measure it on data that drifts there."
    )


def _table(result: AuditResult) -> Table:
    level = f"{100 * result.level:.0f} % interval"
    alone = "rounding alone" if result.output == "energy" else "resampling alone"
    return Table(("measure", "mean", level, alone), measure_rows(result))
