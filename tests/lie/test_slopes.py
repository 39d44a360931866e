"""Models that jump, and functions with features that a fit misses, are not certified in silence."""

import math
import warnings

import pytest
import torch

import symmetries
from symmetries.lie.fields import field_family
from symmetries.lie.fitting import residual_structure
from symmetries.lie.polarisation import Problem
from symmetries.lie.slopes import unexplained_change


def points(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64)


def radius(x):
    return x.square().sum(-1)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: radius(x) + (x[:, 0] > 0),
        lambda x: radius(x) + 0.1 * (x[:, 0] > 1),
        lambda x: radius(x) + torch.round(3 * x[:, 0]) / 3,
        lambda x: torch.where(x[:, 0] > 0.5, radius(x), 2 * radius(x)),
        lambda x: radius(x) + x[:, 0].detach(),
    ],
)
def test_models_whose_slopes_do_not_explain_them_are_not_certified(model):
    found = symmetries.generators(points(1000, 3), model=model)
    assert found.dimension[0] == 0
    assert "it has jumps" in found.answer


def test_models_that_are_known_at_the_data_only_are_not_certified():
    x = points(600, 3)
    known = set(map(tuple, x.tolist()))

    def model(z):
        inside = torch.tensor([tuple(row) in known for row in z.detach().tolist()])
        return torch.where(inside, radius(z), torch.nan)

    problem = Problem(lambda z: model(z)[:, None], field_family("linear", 3), "invariant", 1)
    turn = torch.zeros(1, 3, 3, dtype=torch.float64)
    turn[0, 0, 1], turn[0, 1, 0] = -1, 1
    assert unexplained_change(problem, x, turn.flatten(1)) == math.inf


def test_models_with_kinks_and_borders_are_certified():
    models = (
        lambda x: torch.relu(radius(x) - 4),
        lambda x: radius(x).sqrt(),
        lambda x: torch.log(9 - radius(x).clamp(max=8.9)),
    )
    for model in models:
        assert symmetries.generators(points(800, 3), model=model).name == "so(3)"
    sixth = symmetries.generators(
        points(800, 2),
        model=lambda x: torch.view_as_real(torch.view_as_complex(x.contiguous()) ** 6),
        law="equivariant",
    )
    assert sixth.name == "scaling + so(2)"


def test_functions_that_are_flat_nearly_everywhere_cannot_be_told():
    x = points(600, 2)
    x[:2, 0] = torch.tensor([9.0, 10.0])
    found = [
        symmetries.generators(x, model=lambda x: torch.relu(x[:, 0] - 8), seed=seed)
        for seed in range(3, 6)  # of the halves: one of the two rows is in the first
    ]
    assert {part.dimension[0] for part in found} == {0}
    assert "flat at all rows but a few" in " ".join(part.answer for part in found)


def bump(x):
    return 0.5 * torch.exp(-100 * ((x[:, 0] - 1) ** 2 + x[:, 1] ** 2))


def test_a_narrow_bump_is_seen_in_the_residuals():
    for seed in range(4):
        x = points(2000, 2, seed)
        y = radius(x) + bump(x) + 0.02 * points(2000, 1, 9)[:, 0]
        found = symmetries.generators(x, y, seed=seed)
        assert found.dimension == (0, 6)
        assert "misses part" in found.answer


def test_a_single_row_far_from_the_fit_is_warned_about():
    x = points(400, 2)
    y = radius(x) + 0.02 * points(400, 1, 9)[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert symmetries.generators(x, y).name == "so(2)"
    y[17] += 0.5
    with pytest.warns(UserWarning, match=r"1 row \(18\) is farther from the fit"):
        found = symmetries.generators(x, y)
    assert found.name == "so(2)"
    assert "row (18)" in found.to_html()


def test_nothing_is_said_where_one_row_carries_the_outputs():
    for seed in range(3):
        x = points(500, 2, seed)
        y = radius(x) + 0.3 * x[:, 0]
        y[3] = 1e4
        with pytest.warns(UserWarning, match=r"rows? \(4[,)].* farther from the fit"):
            found = symmetries.generators(x, y, seed=seed)
        assert found.dimension[1] > 0  # a circle about another point
        assert "most of the variance of the outputs" in found.answer


def test_fields_of_a_model_that_leave_the_surface_of_its_data_are_warned_about():
    x = torch.nn.functional.normalize(points(400, 3), dim=1)

    def model(x):  # on the sphere, 1 - x3^2; off it something else
        return x[:, 0] ** 2 + x[:, 1] ** 2 + 0 * x[:, 2]

    with pytest.warns(UserWarning, match="1 polynomial equation of degree 2"):
        found = symmetries.generators(x, model=model)
    assert found.name == "so(2) + translations in x3"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert symmetries.generators(points(400, 3), model=model).name == found.name
        turns = symmetries.generators(x, model=lambda x: radius(x) + x[:, 2], fields="linear")
    assert turns.name == "so(2)"


def test_models_that_fail_where_data_ends_are_judged_by_the_data():
    x = torch.cat((torch.randint(0, 5, (400, 1)).double(), points(400, 2)), 1)

    def model(x):  # an embedding of the first column
        return x[:, 1:].square().sum(1) + 0 * torch.ones(5)[x[:, 0].long()]

    with pytest.raises(IndexError):
        model(2 * x)
    assert symmetries.generators(x, model=model).name == "so(2) + translations in x1"


def test_noise_with_heavy_tails_has_no_structure():
    for seed in range(40):
        uniform = torch.rand(400, 1, generator=torch.Generator().manual_seed(seed)).double()
        noise = torch.tan(math.pi * (uniform - 0.5))
        assert residual_structure(points(400, 2, seed), noise) < math.inf


def test_tables_of_few_values_whose_first_outputs_are_zero():
    x = torch.randint(0, 10, (1000, 2), generator=torch.Generator().manual_seed(5)).double()
    assert symmetries.generators(x, x[:, 0] * x[:, 1]).name == "so(1,1)"
