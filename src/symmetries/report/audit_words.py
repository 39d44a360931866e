"""Text and table rows for the numbers of an audit, for the terminal and for pages."""

from collections.abc import Sequence

from symmetries.results import AuditResult, Estimate

MEASURES = {
    "agreement": "same prediction when moved",
    "accuracy": "accuracy",
    "accuracy_moved": "accuracy when moved",
    "logit_invariance": "logit invariance error",
    "normalised_logit_invariance": "logit invariance error, relative to the logits",
    "margin_change": "change of the lead of the predicted class, of its mean lead",
    "distribution_invariance": "change of the probabilities (KL)",
    "saliency_area": "saliency similarity, over all thresholds",
    "saliency_similarity": "saliency similarity above 0.9 of the largest (the paper's)",
    "sensitivity": "sensitivity",
}
OUTPUTS = {
    "cosine": "cosine of the embeddings, as given and moved",
    "relative_error": "error, relative to the size of the output",
    "relative_error_inside": "the same away from the border",
    "share_at_the_border": "share of the squared error that is near the border",
    "agreement": "same answer (maps: by pixel, inside; boxes: partners of the same class)",
    "matched": "boxes that have a partner after mapping back",
    "overlap": "overlap of the partners",
    "absolute_error": "error, in units of the output",
    "largest_error": "largest error of a vector or point, in its units",
    "error_of_side": "error, as a share of the longer side",
    "error_of_spread": "error, as a share of the spread over the examples",
    "edit_distance": "edit distance, by length",
    "energy_error": "error of the energy",
    "energy_error_per_atom": "error of the energy, by atom",
    "force_error": "error of the forces, mean length",
    "largest_force_error": "largest error of a force",
    "relative_force_error": "error of the forces, of their size",
}
ALSO_CHECKED = ("relative_error", "force_error", "agreement")  # beside the first measure
NEED_LABELS = ("accuracy", "accuracy_moved")
# Largest relative change of the logits for which a model is called invariant.
INVARIANT, NEARLY = 1e-6, 0.05
ALWAYS = 0.99  # share of equal predictions from which a change within resampling counts as none
WITHIN = "within the error of resampling"
SCALE_FREE = ("cosine", "relative_error", "matched", "edit_distance")
Row = tuple[str, str, str, str]


def measure_rows(result: AuditResult) -> list[Row]:
    """Name, mean, interval and the effect of resampling alone, of each measure."""
    rows: list[Row] = []
    if result.measures:
        return [
            _row(OUTPUTS.get(name, name) + _unit(result, name), found)
            for name, found in result.measures.items()
        ]
    for name, meaning in MEASURES.items():
        found: Estimate | None = getattr(result, name)
        if found is None:
            if name in NEED_LABELS or name == "margin_change":
                continue
            if name == "saliency_area" and result.saliency_similarity is not None:
                continue  # a saliency of the user's own
            rows.append((meaning, "not measured", "", ""))
            continue
        few = _pixels(result) if name == "saliency_similarity" else None
        if few is not None:
            rows.append((meaning, "not measured", f"{few:.1f} pixels left", ""))
            continue
        rows.append(_row(meaning, found))
    return rows


def _unit(result: AuditResult, name: str) -> str:
    return f" [{result.units[name]}]" if name in result.units else ""


def counted(result: AuditResult) -> str:
    """Return the noun for examples: images, structures of atoms, or examples of other data."""
    other = "structures" if result.output == "energy" else "examples"
    return other if result.data is None else "images"


def class_name(result: AuditResult, label: int) -> str:
    """Return the name of a class, where the data has one, or its number."""
    names = () if result.data is None else result.data.classes
    return names[label] if label < len(names) else str(label)


def weakest_words(result: AuditResult) -> str:
    """Return the class whose prediction changes most often; empty if none does."""
    rows = [row for row in result.by_class if row.agreement < 1]
    if not rows or len(result.by_class) < 2:
        return ""
    row = min(rows, key=lambda row: (row.agreement, -row.examples))
    text = f"Weakest class: {class_name(result, row.label)}, {100 * row.agreement:.0f} % "
    text += f"({100 * row.low:.0f} to {100 * row.high:.0f}) the same when moved, "
    text += f"of {row.examples:,} {counted(result)}"
    if row.becomes is None:
        return f"{text}."
    other = class_name(result, row.becomes)
    return f"{text}; {100 * row.becomes_share:.0f} % become {other}."


def _row(meaning: str, found: Estimate) -> Row:
    alone = "" if found.discretisation is None else f"{found.discretisation:.3g}"
    return (meaning, f"{found.mean:.3g}", f"{found.low:.3g} to {found.high:.3g}", alone)


def _pixels(result: AuditResult) -> float | None:
    """Return how many pixels the paper's threshold leaves, if these are too few to be compared."""
    last = result.saliency_curve[-1] if result.saliency_curve else None
    return None if last is None or last.similarity is not None else last.pixels


def verdict(result: AuditResult) -> str:
    """Return the answer in one sentence, from the relative change of the logits."""
    measure = result.normalised_logit_invariance
    if measure is None:
        return _output_verdict(result)
    change, alone = measure.mean, measure.discretisation or 0.0
    if change <= INVARIANT:
        return "Yes, exactly: the outputs stay the same when the inputs are moved."
    if change <= 2 * alone:
        if result.agreement is None or result.agreement.mean >= ALWAYS:
            return f"Yes, {WITHIN}: the outputs stay the same when the inputs are moved."
        return (
            f"Cannot be told: outputs change by {100 * change**0.5:.2g} % of their size, and by "
            f"{100 * alone**0.5:.2g} % when inputs are moved there and back, by resampling alone; "
            f"{100 * (1 - result.agreement.mean):.1f} % of the predictions change."
        )
    words = _consequence(result)
    if change <= NEARLY:
        return f"Nearly: outputs change by {100 * change**0.5:.0f} % of their size; {words}."
    return f"No: outputs change by {100 * change**0.5:.0f} % of their size; {words} when moved."


def _output_verdict(result: AuditResult) -> str:
    """Return the answer for other outputs: the first measure that is not what it should be."""
    checked = [name for i, name in enumerate(result.measures) if not i or name in ALSO_CHECKED]
    words, cause = "", "rounding" if result.output == "energy" else "resampling"
    for name in checked:
        found = result.measures[name]
        best = 1.0 if name in ("cosine", "matched", "agreement") else 0.0
        gap = abs(found.mean - best)
        alone = 0.0 if found.discretisation is None else abs(found.discretisation - best)
        value = f"{OUTPUTS.get(name, name)}{_unit(result, name)}: {found.mean:.3g}"
        if gap > max(INVARIANT, 2 * alone):
            return f"No: outputs do not move as they should ({value}; {cause} alone {alone:.3g})."
        if name in SCALE_FREE and gap > NEARLY:
            return f"Cannot be told: {value}, of which resampling alone may be {alone:.3g}."
        exactly = "exactly" if gap <= INVARIANT else WITHIN
        words = words or f"Yes, {exactly}: outputs move as they should ({value})."
    return words


def _consequence(result: AuditResult) -> str:
    if result.accuracy is None or result.accuracy_moved is None:
        share = 0.0 if result.agreement is None else 100 * (1 - result.agreement.mean)
        return f"{share:.1f} % of the predictions change"
    drop = result.accuracy.mean - result.accuracy_moved.mean
    if drop <= 0:
        return "accuracy does not fall"
    words = f"accuracy falls by {100 * drop:.1f} points"
    alone = result.accuracy_moved.discretisation
    lost = 0.0 if alone is None else 100 * (result.accuracy.mean - alone)
    return words if lost < 1 else f"{words} (by {lost:.1f} where images are moved there and back)"


def answer_words(result: AuditResult) -> list[tuple[str, str]]:
    """Return the main answers, by name."""
    answers = []
    same = result.agreement or result.measures.get("agreement")
    if same is not None:
        interval = f"{100 * same.low:.1f} to {100 * same.high:.1f}"
        answers.append(("same prediction when moved", f"{100 * same.mean:.1f} % ({interval})"))
    if result.accuracy is not None and result.accuracy_moved is not None:
        still, moved = 100 * result.accuracy.mean, 100 * result.accuracy_moved.mean
        answers.append(("accuracy", f"{still:.1f} % as given, {moved:.1f} % when moved"))
    looks = result.saliency_area or result.saliency_similarity
    if looks is not None:
        answers.append(("looks at the same pixels", f"{looks.mean:.2f} (1 is always, 0 never)"))
    return answers


def range_words(result: AuditResult) -> str:
    """Return how far each parameter of a continuous group went; empty for a finite group.

    Example:
        >>> from symmetries.results import ParameterRange
        >>> one = ParameterRange(name="rotation", low=-10, high=10, unit="degrees")
        >>> range_words(AuditResult.model_construct(range=(one,)))
        'Moved by: rotation −10° to +10°.'
    """
    if not result.range:
        return ""
    return f"Moved by: {', '.join(_range(p.name, p.low, p.high, p.unit) for p in result.range)}."


def _range(name: str, low: float, high: float, unit: str) -> str:
    name = name.replace("_", " ")
    if unit == "factor":
        return f"{name} ×{low:.3g} to ×{high:.3g}"
    marks = {"degrees": "°", "pixels": " px"}
    ends: Sequence[str] = [f"{end:+.3g}".replace("-", "\u2212") for end in (low, high)]
    return f"{name} {ends[0]}{marks.get(unit, '')} to {ends[1]}{marks.get(unit, f' {unit}')}"


def logit_words(result: AuditResult) -> str:
    """Return what the logit error means, in units of the model's own margin."""
    error, change = result.logit_invariance, result.margin_change
    if error is None or change is None or result.margin is None:
        return ""
    return (
        f"A logit error of {error.mean:.3g} is half the squared change of the logits. The "
        f"predicted class leads the next one by {result.margin:.3g} on average; moving an image "
        f"changes that lead by {change.mean:.2g} times as much (a prediction flips when it loses "
        "all of it)."
    )
