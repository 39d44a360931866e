"""Everyday questions: their cells, and symbols of which none occurs twice."""

import math

import torch
from benchmarks.planted import design, development, everyday
from benchmarks.planted.planting import plant


def test_everyday_cells_have_truths_and_are_no_cells_of_other_sets():
    cells, digest = everyday.cells()
    assert len(digest) == 64
    known = {cell["id"] for cell in (*design.load()[0]["cells"], *development.cells()[0])}
    assert len({cell["id"] for cell in cells} - known) == len(cells) == 17
    letters = next(cell for cell in cells if cell["asked"] == "similarity")
    assert letters["truth"]["rotation"]["width90"] == 81.0
    assert letters["planted"] == {"rotation": round(math.pi / 4, 6), "zoom": 0.2}


def test_symbols_differ_and_lie_on_white():
    pictures = plant("symbols", 32, 608, {}, seed=0).images
    assert pictures.shape == (608, 3, 32, 32)
    border = torch.cat((pictures[..., 0, :], pictures[..., -1, :]), -1)
    assert float((border > 0.99).float().mean()) > 0.99
    shapes = (pictures < 0.9).any(1).flatten(1).float()
    assert len(torch.unique(shapes, dim=0)) > 590  # some thin ones are alike at 32 pixels
