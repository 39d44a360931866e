"""Half-widths of single classes."""

import copy
import math

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.estimators.networks import AveragedOutputs
from symmetries.groups.affine import Affine2
from symmetries.learners.invariant_network import (
    InvariantNetwork,
    InvariantNetworkConfig,
    WidthProfile,
    search,
)
from symmetries.learners.invariant_network.class_widths import ClassWidths

SHAPE, RUN = (1, 6, 6), {"device": "cpu", "progress": False}


def averaged_by_class(**options) -> InvariantNetwork:
    """A network whose first logit is averaged over ±30 degrees, and the others over ±90."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 3))
    config = InvariantNetworkConfig(half_width=0.5, samples=5).replace(**options)
    learner = InvariantNetwork(module, "rotation", SHAPE, config).double()
    learner.class_widths = ClassWidths(3, {0: torch.tensor([math.pi / 6]).double()})
    return learner


def pictures(count: int) -> torch.Tensor:
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(1)).double()


def test_each_logit_is_averaged_over_the_box_of_its_class():
    learner, x = averaged_by_class(), pictures(4)
    narrow, wide = copy.deepcopy(learner), copy.deepcopy(learner)
    for other, degrees in ((narrow, 30), (wide, 90)):
        other.class_widths = None
        other.network.box.set_half_width(torch.tensor([math.radians(degrees)]).double())
    found = learner(x)
    torch.testing.assert_close(found[:, 0], narrow(x)[:, 0])
    torch.testing.assert_close(found[:, 1:], wide(x)[:, 1:])
    assert (found[:, 0] - wide(x)[:, 0]).abs().max() > 1e-3
    torch.testing.assert_close(AveragedOutputs(learner).double()(x), found)


def test_the_evidence_is_that_of_the_logits_by_class():
    learner, x, y = averaged_by_class(), pictures(4), torch.tensor([0, 1, 2, 0])
    evidence, eta = learner.evidence(), learner.eta(5)
    outputs = learner(x)
    expected = outputs.log_softmax(1)[range(4), y].sum()
    torch.testing.assert_close(evidence.fit(x, y, eta), expected.detach())
    (rows,) = evidence.rows(x, eta)
    weights = list(learner.module.parameters())
    for number in range(12):
        p = outputs[number // 3].softmax(0)
        row = p.diag().sqrt().detach()[number % 3] - (p.sqrt()[number % 3] * p).detach()
        slopes = torch.autograd.grad(row @ outputs[number // 3], weights, retain_graph=True)
        torch.testing.assert_close(rows[number], torch.cat([s.flatten() for s in slopes]))


def test_widths_by_class_without_a_search_are_refused():
    with pytest.raises(ValueError, match="by_class: expected a search"):
        InvariantNetworkConfig(by_class=True).replace(search=0)


def test_widths_by_class_are_saved_and_loaded(tmp_path):
    learner, x = averaged_by_class().float(), pictures(4).float()
    learner.class_profiles = [
        [WidthProfile("rotation", 3.0, [0.0, 1.0], [-1.0, -2.0], constant=-5.0)]
    ]
    learner.save(tmp_path)
    again = InvariantNetwork.load(tmp_path, copy.deepcopy(learner.module))
    assert torch.equal(again(x), learner(x))
    assert again.class_profiles == learner.class_profiles


def test_a_fit_searches_each_class_after_all_of_them(monkeypatch):
    learner = averaged_by_class(steps=6, by_class=True, search=2, every=2, curvature_rows=30)
    again, asked = copy.deepcopy(learner), []
    learner.class_widths = None

    def line_search(values, name, bound, points):
        asked.append([value for value, _ in values([0.5, 2.0], 0)])
        top = 1.0 if len(asked) == 3 else 2.0  # of the second class
        return WidthProfile(name, bound, [0.9 * top, top, 1.1 * top], [-9.0, 0.0, -9.0])

    monkeypatch.setattr(search, "line_search", line_search)
    learner.fit((pictures(30), torch.arange(30) % 3), **RUN)
    assert learner.network.box.half_width.tolist() == pytest.approx([2.0])
    assert learner.class_widths.own == (1,)
    assert learner.class_widths.width.flatten().tolist() == pytest.approx([1.0])
    assert [[round(p.best, 6) for p in each] for each in learner.class_profiles] == [[2], [1], [2]]
    shared, *classes = asked
    assert len({round(value, 4) for value, _ in classes}) == 3, "each class has its own logit"
    assert classes[0][1] == pytest.approx(shared[1], abs=0.5), "the same widths for all classes"
    assert learner(pictures(4)).shape == (4, 3)
    asked.clear()
    again.fit((pictures(30), torch.arange(30) % 3), **RUN)
    assert asked[0] == pytest.approx(shared), "a fit begins without the widths of one before it"


@pytest.mark.slow
def test_a_class_whose_images_are_turned_is_averaged_more_than_those_of_two_directions():
    generator = torch.Generator().manual_seed(0)
    kind = torch.arange(300) % 3
    turns = 2 * math.pi * torch.rand(300, generator=generator)
    turns = torch.where(kind == 0, turns, (turns / 4 - math.pi / 4) + math.pi * (kind - 1))
    upright = torch.zeros(300, 1, 12, 12)
    upright[kind == 0, :, 3:9, 3:9] = 1.0  # a square, turned by any angle
    upright[kind > 0, :, 1:6, 5:7] = 1.0  # a bar that points up or down, within 45 degrees
    group = Affine2("rotation")
    x = ImageAction(group)(group.exp(turns[:, None]), upright)
    x = x + 0.5 * torch.randn(x.shape, generator=generator)
    config = InvariantNetworkConfig(by_class=True, samples=12).replace(
        steps=250, batch_size=60, search=4, curvature_rows=300, every=25, lr=5e-3
    )
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 6, 3, stride=2)
    module = nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(150, 3))
    learner = InvariantNetwork(module, "rotation", (1, 12, 12), config)
    learner.fit((x, kind), **RUN)
    square, up, down = (each[0] for each in learner.class_profiles)
    assert square.best > 2.6, "the logit of squares may be averaged over all turns"
    assert min(up.best, down.best) < 2.2, "those of the two bars may not both"
