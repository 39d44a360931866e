"""Augerino's widths (Benton et al. 2020), a control: how far labels allow pictures to be moved.

A classifier is averaged over T_eta x with eta uniform in a box, whose half-widths are learned with
the weights: the loss is the cross-entropy less a reward for wide boxes. It answers another question
than the benchmark's (which moves keep the label, and not which occur), needs labels, and says
nothing of single pictures.
"""

import torch
from benchmarks.planted.methods.networks import SmallClassifier, cosine
from benchmarks.planted.protocol import Answer, Found, Question, Refused
from benchmarks.planted.truth import MASS, shown_width, verdict
from torch import nn
from torch.nn.functional import cross_entropy

from symmetries.actions import ImageAction
from symmetries.data import background
from symmetries.groups import parse_group
from symmetries.groups.finite import FiniteGroup
from symmetries.groups.product import Product
from symmetries.training.log import call_hooks

STEPS = 1500
BATCH = 128
RATE = 2e-3
RATE_WIDTHS = 2e-2
REWARD = 0.05  # "medium" in their paper: 0.01 to 0.1 make little difference
START = 0.1  # of the bounds
USUAL = {"shift_x": 0.5, "shift_y": 0.5, "zoom": 0.5, "scale_x": 0.5, "scale_y": 0.5, "shear": 0.5}


def fit(question: Question) -> Answer:
    """Train classifier and widths together, and call 90 % of the box the width."""
    labels = question.images.labels
    if labels is None or int(labels.max()) == 0:
        raise Refused("it needs labels of at least two classes")
    group = parse_group(question.group)
    if isinstance(group, FiniteGroup | Product):
        raise Refused(f"one box of continuous parameters, and not {question.group}")
    images = question.images.images.to(question.device)
    labels = labels.to(question.device)
    act = ImageAction(group, fill=background(images))
    torch.manual_seed(question.seed)
    generator = torch.Generator(images.device).manual_seed(question.seed)
    limit = torch.tensor([USUAL.get(p.name, p.bound) for p in group.parameters]).to(images)
    share = torch.tensor(START).expand(group.dim).logit().clone().to(images)
    raw = nn.Parameter(share)  # widths are limit * sigmoid(raw)
    net = SmallClassifier(images.shape[1], images.shape[-1], int(labels.max()) + 1)
    net.to(images.device)
    optimiser = torch.optim.AdamW(
        [{"params": net.parameters()}, {"params": [raw], "weight_decay": 0.0}], RATE
    )
    for step in range(STEPS):
        fall = cosine(step, STEPS)
        for part, rate in zip(optimiser.param_groups, (RATE, RATE_WIDTHS), strict=True):
            part["lr"] = rate * fall
        at = torch.randint(len(images), (BATCH,), generator=generator, device=images.device)
        unit = torch.rand(BATCH, group.dim, generator=generator, device=images.device)
        eta = limit * raw.sigmoid() * (2 * unit - 1)
        logits = net(act(group.exp(eta), images[at]))
        loss = cross_entropy(logits, labels[at]) - REWARD * raw.sigmoid().norm()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        call_hooks(step + 1, {})
    side = images.shape[-1]
    found = []
    for parameter, half in zip(group.parameters, (limit * raw.sigmoid()).tolist(), strict=True):
        width = shown_width(parameter.name, 2 * MASS * half, side)
        found.append(Found(parameter.name, verdict(parameter.name, width, side), width))
    return Answer(tuple(found), extra={"loss": float(loss.detach())})
