"""Parts that one paper's experiments use: initial weights in orbits, the usual augmentation."""

from pathlib import Path

import pytest
import torch
from torch import nn

from symmetries.actions.images import ImageAction
from symmetries.auditing import logit_invariance, saliency_similarity
from symmetries.groups import Affine2, Cyclic, CyclicShift
from symmetries.learners.penalties import regularised_loss
from symmetries.nn.tied import pixel_permutations

PAPERS = Path(__file__).parents[1] / "papers"


@pytest.mark.parametrize("group", [Cyclic(4), CyclicShift("x", 3)], ids=repr)
def test_start_in_orbits_is_invariant_and_training_keeps_it(group, monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS / "genuine-invariance"))
    from orbit_start import start_in_orbits

    torch.manual_seed(0)
    units = 26  # not a multiple of 3 or 4: some units are left over
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, units), nn.ReLU(), nn.Linear(units, 3))
    start_in_orbits(model[1], model[3], pixel_permutations(group, (1, 6, 6)))
    x, y = torch.randn(32, 1, 6, 6), torch.randint(3, (32,))
    assert logit_invariance(model, x, group).mean < 1e-12
    before = model[1].weight.clone()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(50):
        loss = regularised_loss(model, x, y, group, nu=1.0)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float((model[1].weight - before).abs().max()) > 0.01
    assert logit_invariance(model, x, group).mean < 1e-8
    assert saliency_similarity(model, x, group).mean > 0.99


def test_augmentation_is_within_its_widths(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS / "invariant-vae"))
    from augmentation import fixed_augmentation

    act, seen = ImageAction(Affine2("rotation")), []
    plain = act.group.exp
    act.group.exp = lambda eta: seen.append(eta) or plain(eta)
    x = torch.rand(64, 1, 8, 8)
    new = fixed_augmentation(act, (0.3,))(x, torch.Generator().manual_seed(0))
    assert new.shape == x.shape
    assert 0.2 < float(seen[0].abs().max()) <= 0.3


def test_a_second_packing_loses_as_much_as_the_sheets(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS / "relaxed-equivariance"))
    from image_sets import packed_again

    generator = torch.Generator().manual_seed(0)
    images = nn.functional.interpolate(
        torch.rand(8, 3, 8, 8, generator=generator), size=32, mode="bicubic"
    ).clamp(0, 1)
    images = (images + 0.02 * torch.randn(images.shape, generator=generator)).clamp(0, 1)
    packed = packed_again(images)
    loss = 10 * torch.log10(1 / (packed - images).square().mean())
    assert 36 < float(loss) < 42, "the sheets of real pictures have 39.7 dB"
    again = 10 * torch.log10(1 / (packed_again(packed) - packed).square().mean())
    assert float(again) > 55, "on the same blocks there is nothing more to lose"
