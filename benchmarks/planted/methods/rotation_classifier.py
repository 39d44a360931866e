"""A plain self-supervised classifier of the turn that was applied (after Gidaris et al. 2018).

Pictures are turned by one of 36 angles and a network names which one. On pictures as they are, how
peaked its answer is says which turns the data has. There is no held-out stopping, no blur and no
calibration: this is the control for those. The same is done for hue; it has one angle at a time.
"""

import math

import torch
from benchmarks.planted.methods.networks import SmallClassifier, cosine
from benchmarks.planted.planting import round_window
from benchmarks.planted.protocol import LOOKED_AT, Answer, Found, Question, Refused, drawn
from benchmarks.planted.truth import verdict, width90
from torch.nn.functional import cross_entropy

from symmetries.actions import ImageAction
from symmetries.data import background
from symmetries.groups import parse_group
from symmetries.training.log import call_hooks

CLASSES = 36
STEPS = 1500
BATCH = 128
RATE = 2e-3


def plain(question: Question) -> Answer:
    """Read on pictures that it was trained on: few pictures are learned by heart."""
    return fit(question, unseen=False)


def held_out(question: Question) -> Answer:
    """Read on pictures that it was not trained on: the first ones, at most half."""
    return fit(question, unseen=True)


def fit(question: Question, *, unseen: bool) -> Answer:
    """Train the classifier and read its answers on pictures as they are."""
    if question.group not in ("rotation", "hue"):
        raise Refused(f"one angle, rotation or hue, and not {question.group}")
    group = parse_group(question.group)
    images = question.images.images.to(question.device)
    act = ImageAction(group, fill=background(images))
    torch.manual_seed(question.seed)
    generator = torch.Generator(images.device).manual_seed(question.seed)
    size, device = images.shape[-1], images.device
    read = min(LOOKED_AT, len(images) // 2 if unseen else len(images))
    first = read if unseen else 0
    window = round_window(size).to(images) if question.group == "rotation" else 1.0
    net = SmallClassifier(images.shape[1], size, CLASSES).to(images.device)
    optimiser = torch.optim.AdamW(net.parameters(), RATE)
    for step in range(STEPS):
        optimiser.param_groups[0]["lr"] = RATE * cosine(step, STEPS)
        at = torch.randint(first, len(images), (BATCH,), generator=generator, device=device)
        applied = torch.randint(CLASSES, (BATCH,), generator=generator, device=device)
        eta = (2 * math.pi / CLASSES) * applied.to(images.dtype)[:, None]
        loss = cross_entropy(net(window * act(group.exp(eta), images[at])), applied)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        call_hooks(step + 1, {})
    net.eval()
    with torch.no_grad():
        p = net(window * images[:read]).softmax(1).cpu()
    step_size = 360 / CLASSES
    widths = torch.tensor([width90(row.double().numpy(), step_size) for row in p])
    mean = float(widths.mean())
    half = math.pi / CLASSES
    seen = drawn(p, -half, 2 * math.pi - half, torch.Generator().manual_seed(question.seed))
    # Nothing narrower than a class can be seen, so a width of one class is as good as none.
    says = "absent" if mean < step_size else verdict(question.group, mean, size)
    # What looks turned by r may be turned by -r.
    found = Found(question.group, says, mean, moves=-seen)
    return Answer((found,), extra={"loss": float(loss.detach())})
