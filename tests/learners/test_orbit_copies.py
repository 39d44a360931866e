"""Copies of pictures: a fit that has seen one knows the pose of all, so they share a fold."""

import torch

from symmetries.learners import OrbitPosterior
from symmetries.learners.orbit_posterior.accepted_pictures import first_copies
from symmetries.learners.orbit_posterior.fitting import fold_of

GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randint(256, (70, 1, 8, 8), generator=GENERATOR) / 255


def test_the_first_copy_of_each_picture_is_found():
    images = torch.cat((IMAGES, IMAGES[:5], IMAGES[3:4] + 1e-4, IMAGES[3:4].flip(-1)))
    expected = [*range(70), *range(5), 3, 76]
    assert first_copies(images).tolist() == expected


def test_copies_share_a_fold_and_others_are_spread_as_before():
    model = OrbitPosterior("rotation", (1, 8, 8), "quick")
    model.prepared(IMAGES)
    assert torch.equal(model.folds(70), fold_of(70, 7, model.seed))
    model.prepared(IMAGES.repeat(4, 1, 1, 1))
    folds = model.folds(280).reshape(4, 70)
    assert torch.equal(folds, folds[:1].expand(4, -1))
    assert int(folds[0].bincount(minlength=7).min()) > 3
    assert not torch.equal(fold_of(280, 7, model.seed).reshape(4, 70), folds)
