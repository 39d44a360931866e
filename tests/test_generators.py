"""``symmetries.generators``: tables, models, trajectories; results, pages and the learned group."""

import warnings

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import symmetries
from symmetries.actions import PointAction
from symmetries.analysis.tables import read_table
from symmetries.report.generator_report import bracket_table, structure_constants
from symmetries.results import GeneratorResult
from symmetries.testing import assert_group


def points(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64)


def mass(x):
    return x[:, 0] ** 2 - x[:, 1:].square().sum(-1)


@pytest.fixture(scope="module")
def lorentz():
    return symmetries.generators(points(500, 4), model=mass)


def test_a_model_gives_its_algebra_with_certificates(lorentz):
    assert lorentz.answer == lorentz.name == "so(1,3)"
    assert lorentz.latex == r"\mathfrak{so}(1,3)"
    assert lorentz.dimension == (6, 6)
    assert lorentz.levi == ("so(1,3)",)
    assert {part.verdict for part in lorentz.spectrum[:6]} == {"symmetric"}
    assert {part.verdict for part in lorentz.spectrum[6:]} == {"not symmetric"}
    assert all(part.low <= part.defect <= part.high < 1e-10 for part in lorentz.generators)
    assert lorentz.generators[0].text in ("x2 d/dx1 + x1 d/dx2", "-x2 d/dx1 - x1 d/dx2")


def test_the_learned_group_moves_points_and_leaves_the_function(lorentz):
    group = lorentz.fitted
    etas = 0.3 * points(20, group.dim, seed=3)
    assert_group(group, etas, tolerance=1e-8)
    x = points(20, 4, seed=4)
    moved = PointAction(group)(group.exp(etas), x)
    torch.testing.assert_close(mass(moved), mass(x), rtol=1e-9, atol=1e-9)
    assert symmetries.invariance_error(mass, PointAction(group), group.exp(etas), x) < 1e-9


def test_a_result_is_saved_and_shown(lorentz, tmp_path):
    loaded = GeneratorResult.load(lorentz.save(tmp_path / "g.json"))
    assert loaded == lorentz
    assert isinstance(loaded.plot(), Figure)
    page = lorentz.to_html()
    assert "so(1,3)" in page.partition("</h1>")[0]
    assert page.count("<svg") == 7  # the spectrum and six generators
    assert loaded.to_html().count("<svg") == 1
    assert "x2 d/dx1" in page


def test_a_table_with_noise_is_fitted():
    x = points(600, 3)
    y = x.square().sum(-1) + 0.01 * points(600, 1, seed=1)[:, 0]
    found = symmetries.generators((x.numpy(), y.numpy()))
    assert (found.name, found.dimension) == ("so(3)", (3, 3))
    assert found.fit.needed == 2
    assert found.fit.adequate
    assert found.source == "polynomial of degree 3"
    assert all(part.low == 0 for part in found.generators)


def test_too_much_noise_cannot_be_told():
    x = points(400, 3)
    found = symmetries.generators(x, x.square().sum(-1) + 3 * points(400, 1, seed=1)[:, 0])
    assert found.dimension[0] == 0
    assert found.dimension[1] >= 3
    assert "cannot be told" in found.answer
    assert "cannot be told" in found.to_html()


def test_a_fit_that_misses_the_function_certifies_nothing():
    # A fit of degree 2 sees the radius; the waves that break the symmetry are in its residuals.
    x = points(800, 2)
    y = x.square().sum(-1) + 0.3 * torch.sin(9 * x[:, 0])
    found = symmetries.generators(x, y, degree=2, epsilon=0.2)
    assert found.dimension[0] == 0
    assert "misses part" in found.answer
    assert not found.fit.adequate


def trajectories(n=40, steps=40, dt=0.02):
    """A particle in a potential of the radius: turned solutions are solutions."""

    def velocity(s):
        place, speed = s[:, :2], s[:, 2:]
        return torch.cat((speed, -place * (1 + place.square().sum(-1, keepdim=True))), -1)

    state = points(n, 4, seed=2)
    states = [state]
    for _ in range(steps):
        a = velocity(state)
        b = velocity(state + dt / 2 * a)
        c = velocity(state + dt / 2 * b)
        d = velocity(state + dt * c)
        state = state + dt / 6 * (a + 2 * b + 2 * c + d)
        states.append(state)
    return torch.stack(states, 1)


def test_trajectories_give_the_symmetries_of_their_dynamics():
    found = symmetries.generators(trajectories(), time_step=0.02, degree=3)
    assert found.law == "dynamics"
    assert (found.name, found.dimension) == ("so(2)", (1, 1))
    assert found.data.trajectories == 40
    matrix = np.array(found.generators[0].matrix)
    np.testing.assert_allclose(matrix, -matrix.T, atol=1e-3)  # places and speeds turn together
    np.testing.assert_allclose(matrix[:2, :2], matrix[2:4, 2:4], atol=1e-3)


def test_one_trajectory_is_cut_into_pieces():
    table = read_table(trajectories(1, 200).numpy(), time_step=0.02)
    assert len(table.units.unique()) == 40
    with pytest.raises(ValueError, match="at least 5 states"):
        read_table(np.zeros((3, 4, 2)))


def test_velocities_are_of_fourth_order():
    errors = []
    for dt in (0.1, 0.05):
        t = dt * torch.arange(40, dtype=torch.float64)
        table = read_table(torch.sin(t)[None, :, None], time_step=dt)
        errors.append(float((table.y[:, 0] - torch.cos(t[2:-2])).abs().max()))
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.1)


def test_fields_of_a_users_own():
    def turn(x):
        return torch.stack((-x[:, 1], x[:, 0]), -1)

    def stretch(x):
        return x

    found = symmetries.generators(
        points(300, 2), model=lambda x: x.square().sum(-1), fields=[turn, stretch]
    )
    assert found.dimension == (1, 1)
    assert found.generators[0].text == "+1 turn"
    assert found.fitted is None


def test_directions_that_are_ignored_are_translated_along():
    found = symmetries.generators(points(300, 3), model=lambda x: x[:, 0] ** 3 + x[:, 1] ** 2)
    assert found.name == "translations in x3"
    assert found.ignored == 1
    assert "does not depend on 1 of 3 directions" in found.to_html()


def test_asymmetric_functions_have_no_symmetry():
    found = symmetries.generators(
        points(500, 2), model=lambda x: x[:, 0] ** 3 + x[:, 0] * x[:, 1] ** 2 + torch.exp(x[:, 1])
    )
    assert (found.answer, found.dimension) == ("no symmetry", (0, 0))


@pytest.mark.parametrize(
    ("data", "options", "text"),
    [
        (points(50, 2), {}, "y: expected outputs, or a model"),
        (points(50, 2), {"y": np.zeros(49)}, "50 rows"),
        (np.array([["a", "b"]]), {}, "x: expected numbers"),
        (points(50, 2), {"y": np.full(50, np.nan)}, "finite"),
        (points(8, 2), {"y": np.zeros(8)}, "at least"),
        ("nothing.npz", {}, "an existing"),
        (points(50, 2), {"model": mass, "epsilon": 0.0}, "epsilon"),
        (points(50, 2), {"model": mass, "fields": "spirals"}, "fields"),
        (points(50, 2), {"model": mass, "law": "magic"}, "law"),
    ],
)
def test_wrong_input_is_refused(data, options, text):
    with pytest.raises(ValueError, match=text):
        symmetries.generators(data, **options)


def test_the_same_seed_gives_the_same_result():
    x = points(300, 2)
    y = x.square().sum(-1) + 0.01 * points(300, 1, seed=1)[:, 0]
    one, two = (symmetries.generators(x, y, seed=3) for _ in range(2))
    assert one.generators == two.generators
    assert one.spectrum == two.spectrum


def test_one_matrix_moves_both_vectors_of_a_pair():
    x = points(500, 8, seed=6)

    def pair_mass(x):
        return mass(x[:, :4] + x[:, 4:])

    found = symmetries.generators(x, model=pair_mass, fields="linear", vectors=2)
    assert (found.name, found.dimension) == ("so(1,3)", (6, 6))
    assert np.array(found.generators[0].matrix).shape == (5, 5)
    group = found.fitted
    moved = PointAction(group)(group.exp(0.2 * points(1, 6)[0]), x.reshape(500, 2, 4))
    torch.testing.assert_close(pair_mass(moved.reshape(500, 8)), pair_mass(x))
    with pytest.raises(ValueError, match="3 vectors of equal length"):
        symmetries.generators(x, model=pair_mass, vectors=3)


def test_common_translations_of_two_points():
    x = points(400, 4)
    found = symmetries.generators(
        x, model=lambda x: (x[:, :2] - x[:, 2:]).square().sum(-1), vectors=2
    )
    assert found.name == "se(2)"


def test_bases_are_rounded_where_data_does_not_tell_the_difference():
    x = points(800, 3)
    noisy = x.square().sum(-1) + 0.02 * points(800, 1, seed=1)[:, 0]
    found = symmetries.generators(x, noisy, fields="linear")
    entries = np.abs(np.array([part.matrix for part in found.generators]))
    assert set(np.round(entries.flatten(), 6)) == {0.0, 0.707107}
    slanted = x @ torch.diag(x.new_tensor([1.0, 1.0, 1.3]))  # rounding would be wrong by far
    found = symmetries.generators(x, slanted.square().sum(-1), fields="linear")
    entries = np.abs(np.array([part.matrix for part in found.generators]))
    assert (entries > 0.1).sum() == 6
    assert len(set(np.round(entries[entries > 0.1], 3))) > 1
    assert all(part.high < 1e-8 for part in found.generators)


def test_repeated_rows_are_one_unit():
    # 40 points, each repeated 20 times: without units they would pass for 800.
    x = points(40, 2).repeat_interleave(20, 0)
    y = x.square().sum(-1) + 0.1 * points(40, 1, seed=8)[:, 0].repeat_interleave(20, 0)
    units = torch.arange(40).repeat_interleave(20)
    careful = symmetries.generators(x, y, units=units, degree=2, fields="linear", epsilon=0.1)
    alone = torch.arange(800)
    careless = symmetries.generators(x, y, units=alone, degree=2, fields="linear", epsilon=0.1)
    reach = [part.spectrum[0].high / part.spectrum[0].defect for part in (careful, careless)]
    assert reach[0] > 1.5 * reach[1]
    with pytest.raises(ValueError, match="units: expected 800"):
        symmetries.generators(x, y, units=units[:9])


def test_units_and_origins_change_nothing_but_the_words():
    x = points(500, 3)
    y = x.square().sum(-1)
    plain = symmetries.generators(x, y)
    uneven = symmetries.generators(x * x.new_tensor([1e-8, 1, 1e8]), y)
    assert (plain.name, plain.dimension, plain.coordinates) == ("so(3)", (3, 3), "")
    assert (uneven.name, uneven.dimension, uneven.span) == ("so(3)", (3, 3), 3)
    assert "standard deviations" in uneven.coordinates
    assert "standard deviations" in uneven.to_html()
    far = symmetries.generators(x + 1e4, y)
    assert (far.name, far.dimension) == ("so(3)", (3, 3))
    assert "x2' d/dx1'" in far.generators[0].text
    matrix = torch.tensor(far.generators[0].matrix, dtype=torch.float64)
    centre = torch.cat(((x + 1e4).mean(0), torch.ones(1)))
    assert (matrix @ centre).norm() < 0.2 * matrix.norm()  # turns about the data's centre
    np.testing.assert_allclose(
        [part.defect for part in plain.spectrum],
        [part.defect for part in uneven.spectrum],
        rtol=1e-4,
        atol=1e-7,
    )


def test_polynomial_fields_are_written_in_the_datas_coordinates():
    found = symmetries.generators(
        points(400, 2), model=lambda x: x[:, 1] - x[:, 0] ** 2, fields="quadratic", epsilon=1e-6
    )
    assert found.dimension == (3, 3)
    only = symmetries.generators(
        3 * points(400, 2) @ points(2, 2, seed=5),
        model=lambda x: x[:, 1] - x[:, 0] ** 2 + x[:, 0],
        fields="quadratic",
        epsilon=1e-6,
    )
    assert only.dimension == (3, 3)
    assert "d/dx1" in only.generators[0].text


def test_linear_fields_say_which_directions_are_ignored():
    found = symmetries.generators(
        points(300, 3), model=lambda x: x[:, :2].square().sum(-1), fields="linear"
    )
    assert found.ignored == 1
    assert found.answer.startswith("so(2), and any motion along 1 directions")
    alone = symmetries.generators(points(300, 2), model=lambda x: x[:, 0] ** 2, fields="linear")
    assert alone.answer.startswith("any motion along 1 directions")


def test_a_fit_that_misses_the_function_does_not_deny_symmetries_either():
    # A ring wave is symmetric, but its best polynomial on data of one side is not.
    x = points(900, 2) + torch.tensor([1.5, 0.0])
    y = torch.sin(7 * x.norm(dim=1))
    found = symmetries.generators(x, y, fields="linear", degree=3)
    assert not found.fit.adequate
    assert found.dimension == (0, 4)
    assert "cannot be told" in found.answer


def test_copies_of_rows_are_one_unit():
    x = points(25, 2).repeat(20, 1)
    found = symmetries.generators(x, model=lambda x: x.square().sum(-1))
    assert found.dimension[0] == 0
    assert "24 rows or units that differ" in found.reason
    assert found.data.units == 25
    assert "25 units" in found.to_html()


def test_directions_without_influence_do_not_depend_on_units():
    x = points(400, 3)
    y = x[:, :2].square().sum(1) + 0.01 * points(400, 1, seed=1)[:, 0]
    for size in (1.0, 1e-3):
        moved = x * torch.tensor([1.0, 1.0, size]) + torch.tensor([0.0, 0.0, 5.0])
        found = symmetries.generators(moved, y)
        assert found.dimension == (2, 2)
        assert found.name.startswith("so(2) + translations in x3")


def test_directions_that_hardly_matter_are_warned_about():
    def nearly_flat(x):
        return x[:, :2].square().sum(1) + (0.15 * x[:, 2]).square()

    x = points(500, 3)
    with pytest.warns(UserWarning, match="changes along 1 of 3 directions .* An epsilon below"):
        coarse = symmetries.generators(x, model=nearly_flat, epsilon=0.05)
    assert coarse.name == "so(2) + translations in x3"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert symmetries.generators(x, model=nearly_flat, epsilon=0.005).name == "so(3)"
        flat = symmetries.generators(x, model=lambda x: x[:, :2].pow(3).sum(1) + x[:, 0])
    assert flat.name == "translations in x3"


def test_noise_on_a_thin_ring_is_no_symmetry():
    # Across the ring the slope of any fit is huge, and moving along it looks harmless.
    for seed in range(6):
        angle = 6.2832 * torch.rand(400, 1, generator=torch.Generator().manual_seed(seed))
        ring = torch.cat((angle.cos(), angle.sin()), 1) * (1 + 1e-4 * points(400, 1, seed=seed))
        found = symmetries.generators(ring, points(400, 1, seed=seed + 50), seed=seed)
        assert found.dimension[0] == 0


def test_slopes_across_a_curved_surface_are_not_made_up():
    # f is known on the surface only: fields that leave it are no symmetries, whatever f does.
    angle = 6.2832 * torch.rand(400, 1, generator=torch.Generator().manual_seed(0))
    circle = torch.cat((angle.cos(), angle.sin()), 1).double()
    for y, degree in ((circle[:, 0], None), (circle[:, 0] ** 2, None), (circle[:, 0] ** 2, 2)):
        found = symmetries.generators(circle, y, degree=degree)
        assert found.dimension == (0, 0)
        assert found.data.outputs == 1
    with pytest.raises(ValueError, match="degree: expected one whose polynomials differ"):
        symmetries.generators(circle, circle.flip(1), law="dynamics", degree=2)


def test_symmetries_on_a_surface_are_those_along_it():
    x = points(600, 3)
    sphere = x / x.norm(dim=1, keepdim=True)
    found = symmetries.generators(sphere, sphere[:, 2] + 0.01 * points(600, 1, seed=1)[:, 0])
    assert found.dimension[1] == 1
    exact = symmetries.generators(sphere, sphere[:, 2])
    assert exact.name == "so(2)"
    assert "surface" in exact.source
    switch = torch.cat(((x[:, :1] > 0).double(), x[:, 1:]), 1)  # a column of two values
    found = symmetries.generators(switch, switch[:, 0] + x[:, 1:].square().sum(1))
    assert found.name == "so(2)"


@pytest.mark.parametrize("ring", [False, True])
def test_nothing_is_said_about_noise(ring):
    for seed in range(5):
        x, y = points(400, 2, seed=seed), points(400, 1, seed=seed + 50)
        found = symmetries.generators(x / x.norm(dim=1, keepdim=True) if ring else x, y, seed=seed)
        assert found.dimension == (0, 6)
        assert "no better than a constant" in found.answer


@pytest.mark.parametrize("power", [1, -1, -2])
def test_powers_of_a_function_have_its_symmetries(power):
    x = points(1000, 3)
    found = symmetries.generators(x, x.norm(dim=1) ** power)
    assert found.name == "so(3)"
    assert "power" in found.source
    uneven = (x.square() @ x.new_tensor([1.0, 1.5, 3.0])).sqrt() ** power
    assert symmetries.generators(x, uneven).dimension == (3, 3)  # of stretched coordinates


def test_powers_are_not_taken_where_y_explains_itself():
    x = points(1000, 3)
    wells = torch.exp(-x.square().sum(1) / 2)
    assert "logarithm" in symmetries.generators(x, wells).source
    found = symmetries.generators(x, 1 + x[:, 0] ** 4 + x[:, 1:].square().sum(1))
    assert found.source == "polynomial of degree 5"
    assert found.name == "so(2)"


def test_answers_that_rest_on_few_rows_are_warned_about():
    tails = points(1000, 2) / points(1000, 1, seed=3).abs()
    with pytest.warns(UserWarning, match="rows that carry least, a defect is"):
        found = symmetries.generators(tails, tails[:, 0] ** 3 + tails[:, 1])
    assert found.name == "translations in x2"  # where the cube is large, and it is warned about
    assert len(found.warnings) == 1
    exact = symmetries.generators(tails, model=lambda x: x.square().sum(1), fields="linear")
    assert (exact.name, exact.warnings) == ("so(2)", ())


@pytest.mark.parametrize("stretch", [1, 1000])
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("so(3)", lambda z: z.square().sum(1)),
        ("so(1,2)", lambda z: z[:, 0] ** 2 - z[:, 1:].square().sum(1)),
        ("so(2)", lambda z: z[:, :2].square().sum(1) + z[:, 2] ** 3),
        ("so(1,1)", lambda z: z[:, 0] * z[:, 1] + z[:, 2] ** 3),
    ],
)
def test_names_hold_in_stretched_and_turned_coordinates(name, function, stretch):
    turns = [torch.linalg.qr(points(3, 3, seed=s)).Q for s in (5, 6)]
    basis = turns[0] @ torch.tensor([1.0, stretch**0.5, stretch]).double().diag() @ turns[1]
    z = points(800, 3)
    y = function(z)
    y = y + 0.01 * y.std() * points(800, 1, seed=7)[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # columns nearly depend on each other
        assert symmetries.generators(z @ basis.T, y, epsilon=0.05).name == name


def test_positive_outputs_of_few_rows_are_fitted():
    x = points(100, 2)
    found = symmetries.generators(x, x.square().sum(1))
    assert found.fit is not None
    with pytest.raises(ValueError, match="at least 48 rows to fit a function, got 40"):
        symmetries.generators(x[:40], x[:40].square().sum(1))


def test_a_row_far_away_is_warned_about():
    x = points(500, 3)
    x[137, 1] = 1e6
    with pytest.warns(UserWarning, match="Row 138 carries more than half of the variance of x2"):
        found = symmetries.generators(x, x.square().sum(-1))
    assert "Row 138" in found.to_html()


def test_columns_that_nearly_depend_on_each_other_are_warned_about():
    x = points(500, 3)
    near = torch.cat((x, x[:, :1] + 1e-3 * points(500, 1, seed=1)), 1)
    with pytest.warns(UserWarning, match="Columns x1, x4 nearly depend"):
        found = symmetries.generators(near, x.square().sum(-1))
    assert "nearly depend" in found.to_html()


def test_columns_that_depend_on_each_other_are_fitted_in_their_span():
    x = points(500, 3)
    found = symmetries.generators(torch.cat((x, x[:, :1] - 2 * x[:, 1:2]), 1), x.square().sum(-1))
    assert (found.name, found.span, found.warnings) == ("so(3)", 3, ())


def test_translations_are_named_though_they_have_errors():
    x = points(600, 3)
    y = x @ x.new_tensor([1.0, 2.0, 3.0]) + 0.01 * points(600, 1, seed=1)[:, 0]
    found = symmetries.generators(x, y)
    assert found.dimension == (2, 2)
    assert found.name.startswith("translations in")


def test_a_clear_next_field_is_enough_to_count_symmetries():
    x = points(600, 3)
    y = x[:, :2].square().sum(1) + x[:, 2] ** 3 + 0.01 * points(600, 1, seed=1)[:, 0]
    assert symmetries.generators(x, y).dimension == (1, 1)


@pytest.mark.parametrize(
    ("model", "y", "text"),
    [
        (lambda x: (x[:, 0] > 0).double(), None, "slopes of 0"),
        (None, np.ones(300), "y: expected outputs that vary"),
    ],
)
def test_functions_without_slopes_are_refused(model, y, text):
    with pytest.raises(ValueError, match=text):
        symmetries.generators(points(300, 2), y, model=model)


def test_the_page_has_the_algebras_table():
    x = points(300, 3)
    found = symmetries.generators(x, model=lambda x: x.square().sum(-1), fields="linear")
    constants = structure_constants(found)
    assert constants is not None
    matrices = np.array([part.matrix for part in found.generators])
    matrices = matrices / np.abs(matrices).max((1, 2), keepdims=True)
    first, second = matrices[0], matrices[1]
    bracket = np.einsum("l,lab->ab", constants[0, 1], matrices)
    np.testing.assert_allclose(bracket, first @ second - second @ first, atol=1e-9)
    table = bracket_table(constants)
    assert table.rows[0][:2] == ("G1", "0")
    assert {table.rows[0][2], table.rows[1][1]} == {"G3", "-G3"}
    page = found.to_html()
    assert "here it is a factor above 1,000, at the vertical line" in page
    assert "The algebra&#39;s table" in page or "The algebra's table" in page
    alone = symmetries.generators(points(300, 2), model=lambda x: x.square().sum(-1))
    assert structure_constants(alone) is None
