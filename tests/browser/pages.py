"""One page of every kind, from made-up numbers, with names that try to break out."""

import numpy as np

from symmetries.report import audit_page, fit_page, orbit_page, render, symmetry_page
from symmetries.results import (
    AuditResult,
    ClassSymmetries,
    DataSummary,
    FitResult,
    Histogram,
    Invariance,
    LayerRelaxation,
    OrbitCurve,
    OrbitResult,
    PlantedWidth,
    Quality,
    RunInfo,
    SelfTest,
    SymmetryResult,
    Transformation,
    WidthCurve,
)
from symmetries.results.pictures import (
    AuditPictures,
    Bank,
    Film,
    FitPictures,
    OrbitPictures,
    Portrait,
    PosePictures,
    SymmetryPictures,
    Track,
)

NASTY = "<script>alert('x')</script>"
NAMES = (NASTY, 'a "quoted" class & more', "a-very-long-name-without-any-space-in-it")
DATA = DataSummary(name=NASTY, count=1234, channels=1, height=8, width=8, classes=NAMES)
RUN = RunInfo(
    command=f"symmetries discover '{NASTY}'",
    seed=0,
    device="cpu",
    time=1.0,
    created="2026-01-01 00:00 UTC",
    versions={"torch": "2"},
)
STEPS, SIDE = 21, 24


def moving(examples=3, steps=STEPS):
    """A bright bar that wanders: frames (E, S, H, W, C) that all differ."""
    frames = np.zeros((examples, steps, SIDE, SIDE, 1), np.uint8)
    for step in range(steps):
        frames[:, step, 4:-4, 1 + step % (SIDE - 4) : 4 + step % (SIDE - 4)] = 255
    return frames


def transformation(name, unit, low, high, verdict):
    edges = np.linspace(low, high, 31) if unit != "factor" else np.geomspace(low, high, 31)
    density = np.exp(-(np.linspace(-2, 2, 30) ** 2))
    return Transformation(
        name=name,
        unit=unit,
        width90=(high - low) / 2,
        noise_floor=1.1,
        verdict=verdict,
        histogram=Histogram(edges=tuple(edges), density=tuple(density)),
    )


def posed():
    """What an orbit posterior found: every verdict, warnings, classes, portraits, the self-test."""
    kinds = (
        ("rotation", "degrees", -60, 60, "partial"),
        ("shift_x", "pixels", -1, 1, "absent"),
        ("zoom", "factor", 0.5, 2, "cannot be told"),
    )
    parts = tuple(
        transformation(*kind).model_copy(
            update={
                "interval": (0.9 * (kind[3] - kind[2]) / 2, 1.2 * (kind[3] - kind[2]) / 2),
                "share_told": 0.004,
                "deciles": tuple(np.linspace(1.01, 2, 11)),
                "widths": Histogram(edges=tuple(np.linspace(1.01, 2, 11)), density=(0.1,) * 10),
                "reason": "either every pose occurs, or such pictures do not show their pose",
            }
        )
        for kind in kinds
    )
    names = [part.name for part in parts]
    one = ClassSymmetries(
        images=5,
        width90=dict.fromkeys(names, 1.5),
        interval=dict.fromkeys(names, (1.2, 1.9)),
    )
    rows = [
        PlantedWidth(
            name=part.name,
            unit=part.unit,
            planted=1.2,
            expected=1.5,
            recovered=1.4,
            visible=part.verdict != "absent",
        )
        for part in parts
    ]
    result = SymmetryResult(
        warnings=(f"rotation: {NASTY}", "the width is not certain; give more pictures"),
        group="shift_x,rotation,zoom",
        data=DATA,
        transformations=parts,
        classes=dict.fromkeys(NAMES, one),
        check=SelfTest(sentence="2 of 3 planted widths were recovered.", planted=tuple(rows)),
        quality=Quality(images=5, gain=0.9, losses={}),
        run=RUN,
    )
    weights = np.tile(np.linspace(0, 1, STEPS), (3, 1))
    films = [
        Film(np.linspace(p.histogram.edges[0], p.histogram.edges[-1], STEPS), moving(), weights)
        for p in parts
    ]
    bumps = np.exp(-(np.linspace(-3, 3, 40) ** 2)).tolist()
    portraits = [
        Portrait(name, moving()[0, 0], dict.fromkeys(names, 1.5), dict.fromkeys(names, bumps))
        for name in (*NAMES, *NAMES, *NAMES)
    ]
    pictures = PosePictures(NAMES, moving(steps=10), films, portraits[:8], portraits[1:])
    return result.attach(pictures)


def discovered():
    return symmetry_page(posed())


def two_staged():
    parts = (
        transformation("rotation", "degrees", -60, 60, "partial"),
        transformation("shift_x", "pixels", -1, 1, "absent"),
        transformation("zoom", "factor", 0.5, 2, "partial"),
    )
    kinds = {part.name: part.histogram.density for part in parts}
    one = ClassSymmetries(
        images=5, width90={part.name: part.width90 for part in parts}, density=kinds
    )
    result = SymmetryResult(
        warnings=(f"{NASTY}: 2 images of one colour were left out",),
        method="two-stage",
        group="shift_x,rotation,zoom",
        data=DATA,
        transformations=parts,
        classes=dict.fromkeys(NAMES, one),
        quality=Quality(images=5, content_kept=0.9, losses={}),
        run=RUN,
    )
    weights = np.tile(np.linspace(0, 1, STEPS), (3, 1))
    films = [
        Film(np.linspace(p.histogram.edges[0], p.histogram.edges[-1], STEPS), moving(), weights)
        for p in parts
    ]
    return symmetry_page(result.attach(SymmetryPictures(NAMES, moving(steps=10), films)))


def fitted():
    part = Invariance(name="rotation", unit="degrees", half_width=40.0)
    result = FitResult(
        method="invariant",
        group="rotation",
        data=DATA,
        examples=100,
        accuracy=0.9,
        accuracy_interval=(0.8, 0.95),
        elbo=-0.5,
        log_likelihood=-0.3,
        invariance=(part,),
        training=WidthCurve(step=(1, 2, 3), half_width={"rotation": (5.0, 20.0, 40.0)}),
        run=RUN,
    )
    values = {"rotation": np.linspace(-180, 180, STEPS).tolist()}
    bank = Bank(
        "rotation", [(-40.0, "degrees"), (0.0, "degrees"), (40.0, "degrees")], moving(steps=3)
    )
    return fit_page(result.attach(FitPictures(NAMES, {"rotation": moving()}, values, [bank])))


def relaxed():
    layers = ("features.0", "features.4", "features.7")
    rows = [
        LayerRelaxation(layer=layer, coordinate="rotation", value=0.1, error=0.2)
        for layer in layers
    ]
    curves = {f"{layer} rotation": (0.05, 0.2, 0.1) for layer in layers}
    result = FitResult(
        method="relaxed",
        group="c4",
        data=DATA,
        examples=100,
        accuracy=0.9,
        accuracy_interval=(0.8, 0.95),
        elbo=None,
        log_likelihood=-0.3,
        invariance=(),
        relaxation=rows,
        training=WidthCurve(step=(1, 2, 3), half_width={}, relaxation=curves, loss=(2, 1, 0.5)),
        run=RUN,
    )
    bank = Bank(layers[0], [(90.0 * k, "degrees") for k in range(4)], moving(steps=4))
    return fit_page(result.attach(FitPictures((), {}, {}, [bank])))


def audited():
    number = {"mean": 0.5, "standard_error": 0.1, "low": 0.3, "high": 0.7, "discretisation": 0.0}
    names = ("accuracy", "accuracy_moved", "logit_invariance", "normalised_logit_invariance")
    names += ("distribution_invariance", "saliency_similarity", "sensitivity")
    layer = {"name": NASTY, "shape": (4, 8, 8), "law": "equivariance"}
    layer |= {"error": 0.5, "discretisation": 0.1, "relaxation": None}
    turned = layer | {"name": "features.4", "law": "regular", "relaxation": {"rotation": 0.1}}
    result = {"group": "c4", "elements": 3, "examples": 50, "classes": 2, "level": 0.95}
    result |= {"exhaustive": True, "identity": False, "seconds": 1.0, "layers": [layer, turned]}
    result |= {"model": NASTY, "data": DATA.model_dump(), "run": RUN.model_dump()}
    parts = ("accuracy", "logit_invariance", "distribution_invariance", "saliency_similarity")
    result["drift"] = [
        {"beta": beta, "accuracy_ratio": 1.0} | dict.fromkeys(parts, number) for beta in (0, 0.5, 1)
    ]
    curve = np.linspace(0.9, 0.3, STEPS).tolist()
    angles = np.linspace(-180, 180, STEPS).tolist()
    track = Track("rotation", "degrees", angles, curve, curve, moving())
    pictures = AuditPictures(NAMES, [track], moving(steps=5))
    return audit_page(AuditResult(**result, **dict.fromkeys(names, number)).attach(pictures))


def orbited():
    values = tuple(np.linspace(-180, 180, STEPS))
    change = tuple(np.abs(np.linspace(-1, 1, STEPS)))
    curve = OrbitCurve(
        name="rotation",
        unit="degrees",
        values=values,
        change=change,
        change_low=change,
        change_high=change,
        reach=(-12.0, 12.0),
    )
    result = OrbitResult(
        group=("rotation",), data=DATA, neighbour_distance=0.3, transformations=(curve,), run=RUN
    )
    return orbit_page(result.attach(OrbitPictures(NAMES, {"rotation": moving()})))


PAGES = {
    "discover": discovered,
    "two-stage": two_staged,
    "fit": fitted,
    "audit": audited,
    "orbit": orbited,
}
WITHOUT_SLIDER = {"relaxed": relaxed}


def write(kind, folder):
    path = folder / f"{kind}.html"
    path.write_text(render((PAGES | WITHOUT_SLIDER)[kind]()), encoding="utf-8")
    return path
