"""The truth that certificates are judged by agrees with the search; they share no code."""

import pytest
import torch
from benchmarks.generators.page import PAGE, tables, with_tables
from benchmarks.generators.systems import SYSTEMS, added, counted, false_runs, one_run, summarised
from benchmarks.generators.truth import true_defect

from symmetries.lie import search


@pytest.mark.parametrize("name", ["sphere", "ball", "two circles"])
def test_two_ways_to_the_same_defect(name):
    system = SYSTEMS[name]

    def broken(x):
        return system.function(x) + 0.2 * system.term(x)

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20_000, system.inputs, dtype=torch.float64, generator=generator)
    found = search(broken, x, "affine", system.law)
    spectrum = found.spectrum()
    for count in (1, 3):
        worst = true_defect(broken, found.matrices(spectrum.theta[:count]), system.law)
        assert worst == pytest.approx(float(spectrum.defects[count - 1]), rel=0.05)


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_have_the_symmetries_that_they_claim(name):
    system = SYSTEMS[name]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(500, system.inputs, dtype=torch.float64, generator=generator)
    found = search(system.function, x, "affine", system.law)
    spectrum = found.spectrum()
    assert int((spectrum.defects < 1e-9).sum()) == system.dimension
    theta = spectrum.theta[: system.dimension]
    assert true_defect(system.function, found.matrices(theta), system.law) < 1e-6


def test_a_run_has_its_truth():
    row = one_run("circle", 0, broken=False)
    assert (row["least"], row["most"], row["dimension"]) == (1, 1, 1)
    assert row["true defect"] < 0.05


def test_the_page_shows_the_stored_results():
    assert with_tables(PAGE.read_text()) == PAGE.read_text()
    assert "so(1,3)" in tables()


def test_counts_of_parts_add_up_to_those_of_all_runs():
    base = {"system": "circle", "noise": 0.02, "dimension": 1, "threshold": 1, "most": 1}
    runs = [base | {"broken": 0.0, "least": 1}, base | {"broken": 0.0, "least": 0}]
    runs += [base | {"broken": 0.3, "least": 1, "true defect": 0.2, "true defect of threshold": 1}]
    rows = counted(runs)
    assert added([*counted(runs[:1]), *counted(runs[1:])]) == rows
    found = summarised(rows)
    assert false_runs(runs) == runs[2:]
    assert (found["runs"], found["false certificates"], found["detection"]) == (3, 1, 0.5)
    assert found["false answers of a plain threshold"] == 1
