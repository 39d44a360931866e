"""A prescription as a result: moves by class, code, pictures at the edges, a model's curves."""

from pathlib import Path

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.analysis.augmentation_code import code_for
from symmetries.analysis.augmentation_laws import MOVES, STILL, UNITS, draw, fixed, moved
from symmetries.analysis.classifiers import Classifier
from symmetries.analysis.inputs import COPIES, share_of_copies
from symmetries.analysis.label_conflicts import FURTHEST
from symmetries.analysis.network_trials import SEEN
from symmetries.analysis.pictures import example_indices, example_labels, for_display, to_bytes
from symmetries.analysis.prescribe_trials import Task, points
from symmetries.analysis.provenance import Info, data_summary
from symmetries.analysis.stored_models import Loaded, load_classifier, right_answers
from symmetries.auditing.answers import CLASSIFIERS
from symmetries.auditing.models import Model
from symmetries.data import ImageSet
from symmetries.results import Estimate, ModelCurve, PrescribedMove, PrescribeResult, TriedPolicy
from symmetries.results.pictures import EdgePictures

EXAMPLES = 6
SKILL = 0.1  # of the way from guessing to always right
LOOKED_AT = 512  # pictures of a model's curve
ENDS = {"rotation": 180.0, "shift": 0.15, "zoom": 1.5, "light": 0.4}  # of a model's curve
LIBRARIES = ("symmetries", "torchvision", "albumentations", "kornia")


def describe(
    task: Task,
    tried: list[TriedPolicy],
    chosen: dict[str, float],
    scores: Tensor,
    networks: int,
    curves: tuple[ModelCurve, ...],
    info: Info,
) -> PrescribeResult:
    """The result, its code and its pictures."""
    found = [points(scores[1, :, k] - scores[0, :, k]) for k in (0, 1)]
    laws = dict(zip(task.names, task.laws(**chosen), strict=True))
    moves = tuple(
        PrescribedMove.model_validate(
            {
                "name": name,
                "unit": UNITS[name],
                "amount": max(getattr(law, name) for law in laws.values()),
                "by_class": {own: getattr(law, name) for own, law in laws.items()},
            }
        )
        for name in chosen
    )
    height, width = task.images.images.shape[-2:]
    code = {name: code_for(name, laws, task.fill, (height, width)) for name in LIBRARIES}
    result = PrescribeResult(
        warnings=tuple(cautions(task, chosen, found[0], float(scores[0, :, 0].mean()))),
        moves=moves,
        conflicts=task.conflicts,
        tried=tuple(tried),
        gain=found[0],
        robustness=found[1],
        accuracy=float(scores[0, :, 0].mean()),
        networks=networks,
        curves=curves,
        fill=task.fill,
        code=code,
        data=data_summary(task.images),
        run=info(),
    )
    return result.attach(edges(task, chosen))


def cautions(task: Task, chosen: dict[str, float], gain: Estimate, accuracy: float) -> list[str]:
    """What a reader must know first."""
    found = []
    copies = share_of_copies(task.images)
    if copies > COPIES:
        text = f"{100 * copies:.0f} % of the pictures are copies of others: networks have seen "
        found.append(text + "held-out pictures in training, and gains are too small; remove copies")
    guess = float(torch.bincount(task.labels).max()) / len(task.labels)
    if accuracy < guess + SKILL * (1 - guess):
        text = f"small networks are right on {100 * accuracy:.0f} % of held-out pictures, guessing "
        text += f"on {100 * guess:.0f} %: what labels forbid, and what helps, can hardly be seen"
        found.append(text)
    times = task.size.seen(len(task.labels))
    if times < SEEN / 2:
        text = f"small networks have seen each picture {times:.0f} times: one that is trained for "
        found.append(text + "longer may gain more, and by moves that go further")
    if not chosen:
        text = "no augmentation helped small networks on held-out pictures: nothing is prescribed"
        found.append(text)
    elif gain.low <= 0:
        found.append("the predicted gain could be zero: its interval holds 0")
    return found + ([] if task.poses_known else _near_meetings(task, chosen))


def _near_meetings(task: Task, chosen: dict[str, float]) -> list[str]:
    """A warning where classes would meet if pictures are turned already by less than prescribed."""
    laws = dict(zip(task.names, task.laws(**chosen), strict=True))
    turns = [one for one in task.conflicts if one.name == "rotation"]
    room = [
        (one.amount / 2 - max(laws[one.first].rotation, laws[one.second].rotation), one)
        for one in turns
    ]
    near = [(left, one) for left, one in room if left < one.amount / 4]
    if not near:
        return []
    left, one = min(near, key=lambda pair: pair[0])
    text = f"{one.first} and {one.second} look alike after a turn of {one.amount:.0f} degrees, and "
    text += f"are prescribed turns that leave {left:.0f} degrees between: if your pictures are "
    return [text + "turned by more already, give the result of discover (--discovered)"]


def edges(task: Task, chosen: dict[str, float]) -> EdgePictures:
    """Examples at the edges of what is allowed."""
    rows = example_indices(task.images, EXAMPLES)
    x = for_display(task.images.images[rows])
    laws = [task.laws(**chosen)[int(task.labels[row])] for row in rows]
    amounts, frames = {}, {}
    for name in chosen:
        far = [getattr(law, name) for law in laws]
        ends = []
        for sign in (-1, 1):
            each = [1 / a if name == "zoom" and sign < 0 else a for a in far]
            each = [sign * a if name in ("rotation", "shift", "mix") else a for a in each]
            each = [STILL[name] if name in ("flip_x", "erase") and sign < 0 else a for a in each]
            moves = torch.cat([fixed(name, amount) for amount in each])
            ends.append(moved(x, moves, task.fill))
        amounts[name] = far
        frames[name] = to_bytes(torch.stack((ends[0], x, ends[1]), 1))
    return EdgePictures(example_labels(task.images, rows), amounts, frames)


def load_model(
    model: str | Path | Model | Classifier, images: Tensor, labels: Tensor, trust: bool
) -> Loaded:
    """The classifier whose accuracy is reported; a few images are on its device."""
    loaded = load_classifier(model, trust, images.device, images=images, labels=labels)
    if loaded.kind not in CLASSIFIERS:
        raise invalid("model", "a classifier", f"a model of {loaded.kind}", "leave it out")
    return loaded


def some_rows(images: ImageSet, most: int, seed: int) -> Tensor:
    """Numbers of at most so many images, drawn at random: folders are sorted by class."""
    return torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:most]


def model_curves(task: Task, loaded: Loaded, chosen: dict[str, float]) -> tuple[ModelCurve, ...]:
    """Accuracy of a given model along each move, and within what is prescribed."""
    rows = some_rows(task.images, LOOKED_AT, task.seed)
    images, labels = task.images.images[rows].to(task.pixels.device), task.labels[rows]
    own = right_answers(loaded, labels, task.images.class_names)

    def accuracy(moves: Tensor) -> float:
        with torch.no_grad():
            logits = loaded.call(moved(images, moves, task.fill))
        return float((logits.argmax(1).cpu() == own).double().mean())

    found = []
    for name in (*MOVES[:-1], "light"):
        ends = ENDS.get(name, 0.5)
        steps = [ends * k / 4 for k in range(-4, 5)]
        if name in ("flip_x", "erase"):
            steps = [0.0, FURTHEST[name]]
        if name == "zoom":
            steps = [ends ** (k / 4) for k in range(-4, 5)]
        move = "mix" if name == "light" else name  # which holds all changes of light
        law = task.laws(**({move: chosen[move]} if move in chosen else {}))
        generator = torch.Generator().manual_seed(task.seed)
        within = accuracy(draw(law, labels, generator))
        values = [accuracy(fixed(name, step, len(images))) for step in steps]
        found.append(
            ModelCurve.model_validate(
                {"name": name, "amounts": steps, "accuracy": values, "within": within}
            )
        )
    return tuple(found)
