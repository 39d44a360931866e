"""The report of a fitted classifier: the answer first, also where little was learned."""

import numpy as np
import pytest

from symmetries.report import fit_page, render
from symmetries.report.lines import spaced
from symmetries.results import (
    DataSummary,
    FitResult,
    Invariance,
    LayerRelaxation,
    RunInfo,
    WidthCurve,
)
from symmetries.results.pictures import FitPictures

DATA = DataSummary(name="<b>digits", count=10, channels=1, height=4, width=4)
RUN = RunInfo(command="symmetries fit", seed=0, device="cpu", time=1.0, created="", versions={})
EMPTY = FitPictures(labels=(), frames={}, values={})


def result(method, training, **parts):
    return FitResult(
        method=method,
        group="c4",
        data=DATA,
        examples=10,
        accuracy=0.9,
        accuracy_interval=(0.8, 0.95),
        elbo=None,
        log_likelihood=-0.1,
        invariance=parts.get("invariance", ()),
        relaxation=parts.get("relaxation", ()),
        training=training,
        run=RUN,
    )


def widths(rotation, scale):
    parts = (
        Invariance(name="rotation", unit="degrees", half_width=rotation, interval=(0, 40)),
        Invariance(name="scale_x", unit="factor", half_width=scale, interval=(1, 1.2)),
    )
    steps = {part.name: (part.half_width / 2, part.half_width) for part in parts}
    found = result("invariant", WidthCurve(step=(1, 10), half_width=steps), invariance=parts)
    frames = np.zeros((1, 3, 4, 4, 1), np.uint8)
    values = {"rotation": (-180.0, 0.0, 180.0), "scale_x": (0.5, 1.0, 2.0)}
    return fit_page(found.attach(FitPictures(("a",), dict.fromkeys(values, frames), values)))


def test_what_was_not_learned_is_said():
    both, one, none = widths(30, 1.2), widths(30, 1.0), widths(0, 1.0)
    assert both.lede.endswith("averages over rotation ±30°, scale x ×0.83 to ×1.20.")
    assert one.lede.endswith("averages over rotation ±30°, not over scale x.")
    assert none.lede.endswith("no invariance to rotation or scale x was learned.")
    assert [answer.text for answer in none.answers[1:]] == [
        "no (95 %: 0° to 40°)",
        "no (95 %: upper end ×1.00 to ×1.20)",
    ]
    # The picture that is not moved is never faded.
    assert [block.weights[0][1] for block in none.sections[0].blocks] == [1.0, 1.0]
    assert "<b>digits" not in render(none)


def test_relaxations_over_the_training():
    rows = [
        LayerRelaxation(layer=f"features.{i}", coordinate="rotation", value=0.1 * i, error=0.2)
        for i in range(3)
    ]
    curves = {f"{row.layer} rotation": (0.1, row.value) for row in rows}
    training = WidthCurve(step=(1, 10), half_width={}, relaxation=curves, loss=(2.0, 1.0))
    page = fit_page(result("relaxed", training, relaxation=rows).attach(EMPTY))
    assert page.answers[1].text == "20 % from equivariant (ω' 0.000)"
    assert [section.title for section in page.sections] == ["Layer by layer", "How it was learned"]
    relaxing, loss = page.sections[1].blocks
    assert all(f">features.{i}<" in relaxing.svg for i in range(3))
    assert loss.title == "loss"
    without = WidthCurve(step=(), half_width={})  # a file from before
    page = fit_page(result("relaxed", without, relaxation=rows))
    assert [section.title for section in page.sections] == ["Layer by layer"]


@pytest.mark.parametrize("places", [[0.0], [0.0, 0.0, 0.0], [0.0, 0.5, 0.6, 0.7, 9.0], [1.0, 5.0]])
def test_names_at_the_ends_of_lines_do_not_cover_each_other(places):
    found = spaced(places, 1.0)
    assert np.all(np.diff(found) >= 1 - 1e-9)
    assert sum(found) == pytest.approx(sum(places))
