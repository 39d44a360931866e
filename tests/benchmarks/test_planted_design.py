"""The design is what its rule gives, does not change silently, and is balanced."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from benchmarks.planted import design, development
from benchmarks.planted.contents import CONTENTS
from benchmarks.planted.planting import draw_planted
from benchmarks.planted.truth import (
    BINS,
    Natural,
    binned_truth,
    expected_width,
    own_width,
    shown_width,
    verdict,
    width90,
)

EVERYTHING = (round(math.pi, 6), 0.5)  # full turns, and half of the pictures mirrored
DIGEST = "2207b147f4cea23603b138d30ded0c1eb6eeea36b3e1acbb3bb956255c69d4aa"


@pytest.fixture(scope="module")
def whole():
    return design.load()[0]


def test_the_design_does_not_change_silently():
    """A new design makes stored results worthless: change this digest only with new runs."""
    assert design.load()[1] == DIGEST


def test_the_design_is_what_its_rule_gives():
    assert design.rendered(design.make()) == design.FILE.read_text()


def test_there_are_at_most_400_fits_and_none_twice(whole):
    ids = [cell["id"] for cell in whole["cells"]]
    assert len(set(ids)) == len(ids) <= 400
    assert len({(c["seed"], c["id"].rpartition("/")[0]) for c in whole["cells"]}) == len(ids)


def test_every_content_has_all_its_transformations_and_sizes_evenly(whole):
    dealt = [cell for cell in whole["cells"] if not cell["small"]]
    for name, content in CONTENTS.items():
        cells = [cell for cell in dealt if cell["content"] == name]
        planted = Counter(cell["transformation"] for cell in cells)
        assert set(planted) == set(content.planted)
        assert all(design.DRAWS <= n <= 2 * design.DRAWS for n in planted.values())
        used = Counter((c["size"], c["count"]) for c in cells)
        most = math.ceil(
            design.DRAWS * len(content.planted) / len(design.sizes_and_counts(content))
        )
        assert max(used.values()) <= 2 * most  # each may be fitted with a second seed


def test_every_beginning_of_the_list_has_its_share_of_every_content(whole):
    dealt = [cell["content"] for cell in whole["cells"] if not cell["small"]]
    all_of_them = Counter(dealt)
    half = Counter(dealt[: len(dealt) // 2])
    assert all(abs(half[name] - n / 2) <= 1.5 for name, n in all_of_them.items())


def test_groups_contain_what_was_planted_and_truths_name_every_parameter(whole):
    for cell in whole["cells"]:
        names = design.group_names(cell["asked"])
        assert set(cell["planted"]) <= set(names) == set(cell["truth"])


def test_the_small_version_needs_no_files(whole):
    small = [cell for cell in whole["cells"] if cell["small"]]
    assert 8 <= len(small) <= 16
    assert all(not CONTENTS[cell["content"]].files for cell in small)
    assert all(cell["size"] <= 24 and cell["count"] <= 1000 for cell in small)


def test_cells_are_chosen_by_name_and_a_wrong_name_is_refused(whole):
    cells = whole["cells"]
    assert len(design.choose(cells, "all")) == len(cells)
    assert [c["id"] for c in design.choose(cells, cells[5]["id"])] == [cells[5]["id"]]
    with pytest.raises(ValueError, match="expected all, small"):
        design.choose(cells, "nothing-like-it")


@pytest.mark.parametrize(
    ("half", "natural"),
    [
        (0.5, Natural()),
        (0.3, Natural(half=0.12)),
        (0.2, Natural(sd=0.1)),
        (0.0, Natural(half=0.1)),
        (0.0, Natural(sd=0.2)),
    ],
)
def test_widths_are_those_of_a_large_sample(half, natural):
    draws = np.random.default_rng(0)
    n = 400_000
    sample = draws.uniform(-half, half, n) + draws.uniform(-natural.half, natural.half, n)
    sample = np.sort(sample + natural.sd * draws.standard_normal(n))
    inside = int(0.9 * n)
    shortest = (sample[inside:] - sample[:-inside]).min()
    assert expected_width("zoom", half, natural) == pytest.approx(shortest, rel=0.015)


def test_truth_in_bins_is_a_density_around_zero():
    masses = binned_truth("rotation", math.radians(60), Natural(), 32)
    assert masses.sum() == pytest.approx(1)
    assert masses[BINS // 2] == pytest.approx(360 / 120 / BINS, rel=0.01)
    assert masses[0] == pytest.approx(0, abs=1e-9)
    still = binned_truth("shift_x", 0.0, Natural(), 32)
    assert still[BINS // 2] == pytest.approx(1)


def test_verdicts_have_the_thresholds_of_the_library():
    assert [verdict("rotation", w, 32) for w in (4.9, 5.1, 259, 260)] == [
        *("absent", "partial", "partial", "full")
    ]
    assert [verdict("shift_x", w, 32) for w in (0.4, 0.6)] == ["absent", "partial"]
    assert [verdict("zoom", w, 32) for w in (1.02, 1.04)] == ["absent", "partial"]
    assert shown_width("shift_x", own_width("shift_x", 3.0, 28), 28) == pytest.approx(3.0)


def test_the_development_set_shares_no_cell_and_no_content_with_the_design(whole):
    cells = development.cells()[0]
    assert len(cells) == len({cell["id"] for cell in cells}) > 100
    assert not {cell["content"] for cell in cells} & {cell["content"] for cell in whole["cells"]}
    assert not {cell["seed"] for cell in cells} & {cell["seed"] for cell in whole["cells"]}
    assert not {cell["count"] for cell in cells} & set(design.COUNTS)
    uniform = [cell for cell in cells if cell["law"] == "uniform"]
    widths = [
        {(n, round(h, 3)) for c in some for n, h in c["planted"].items() if h not in EVERYTHING}
        for some in (uniform, whole["cells"])
    ]
    assert not widths[0] & widths[1]


@pytest.mark.parametrize(
    ("law", "width"), [("uniform", 1.8), ("normal", 2.0), ("one-sided", 0.9), ("two modes", 0.9)]
)
def test_laws_have_the_widths_that_are_expected_of_them(law, width):
    drawn = draw_planted({"zoom": 1.0}, 200_000, torch.Generator().manual_seed(0), law)["zoom"]
    counts = torch.histc(drawn, 400, -4, 4).double()
    assert width90((counts / counts.sum()).numpy(), 8 / 400) == pytest.approx(width, rel=0.05)
