"""Warnings of fits whose accuracy is no better than one answer for all images."""

import warnings

import pytest
import torch

import symmetries

PIXELS = torch.rand(100, 1, 8, 8, generator=torch.Generator().manual_seed(0))
OPTIONS = {"method": "plain", "preset": "quick", "device": "cpu", "progress": False}


def test_labels_that_cannot_be_learned_are_warned_of(tmp_path):
    labels = torch.arange(100) % 10 == 0  # one image of ten: 90 % are right by one answer
    with pytest.warns(RuntimeWarning, match=r"one answer for all images, \d+\.\d %"):
        found = symmetries.fit((PIXELS, labels.long()), **OPTIONS)
    assert found.accuracy <= 0.95
    (said,) = found.warnings
    found.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert said[1:] in page


def test_labels_that_are_learned_are_not_warned_of():
    labels = torch.arange(100) % 2
    images = PIXELS.clone()
    images[labels == 1, :, :4] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = symmetries.fit((images, labels), **OPTIONS)
    assert not found.warnings
