"""Every group keeps the laws of a group: one suite for all of them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from symmetries.groups import (
    E3,
    O3,
    SE2,
    SE3,
    SO3,
    Affine2,
    Colour,
    Cyclic,
    CyclicShift,
    Dihedral,
    FiniteGroup,
    Flip,
    Lorentz,
    Permutation,
    Product,
    Scale1,
    Signal,
)
from symmetries.testing import GROUP_LAWS, assert_group, group_error

LIE = [
    Affine2(),
    Affine2("translation"),
    Affine2("rotation"),
    Affine2("rotation", "translation"),
    Affine2("similarity"),
    Affine2("scale"),
    Affine2("scale", "translation"),
    Affine2("shear"),
    Colour(),
    Colour("hue"),
    Colour("saturation", "value"),
    SE2(),
    Signal("shift", "time_scale", "amplitude", "offset"),
    Signal("time_scale"),
    Product(Affine2("rotation", "translation"), Colour()),
    Product(SE2(), Product(Colour("hue"), Signal("offset"))),
]
# Rotation vectors of up to 0.55 pi along each axis are shorter than pi, where logarithms end.
SPACE = [SO3(), O3(), SE3(), Lorentz(), Scale1()]
FINITE = [Cyclic(1), Cyclic(2), Cyclic(4), Cyclic(7), CyclicShift("x", 3), CyclicShift("y", 4)]
FINITE += [Flip("x"), Flip("y")]
MIXED = [Product(Cyclic(4), Colour()), Product(SE2(), Flip("x"))]
# exp is one exponential in none of these: R^r F^f is not (R^a F^b)^2 for any a and b.
NO_HOMOMORPHISM = [Dihedral(1), Dihedral(3), Dihedral(4), Signal(), Signal("offset", "sign")]
FAMILIES = [Affine2("rotation", "scale"), Affine2("shear", "rotation")]
WITHOUT_HOMOMORPHISM = [law for law in GROUP_LAWS if law != "homomorphism"]


def column(parameter, reach):
    if parameter.unit == "step":
        return st.integers(-int(parameter.bound), int(parameter.bound)).map(float)
    return st.floats(-reach * parameter.bound, reach * parameter.bound)


def etas(group, reach=0.9, rows=3):
    row = st.tuples(*(column(p, reach) for p in group.parameters))
    drawn = st.lists(row, min_size=rows, max_size=rows)
    return drawn.map(lambda rows: torch.tensor(rows, dtype=torch.float64))


@pytest.mark.parametrize("group", LIE + FINITE + MIXED, ids=repr)
@given(data=st.data())
def test_groups_keep_every_law(group, data):
    assert group.closed
    assert_group(group, data.draw(etas(group)), tolerance=1e-11)


@pytest.mark.parametrize("group", SPACE, ids=repr)
@given(data=st.data())
def test_groups_of_space_keep_every_law(group, data):
    assert_group(group, data.draw(etas(group, reach=0.55)), tolerance=1e-11)


@given(data=st.data())
def test_motions_with_inversions_keep_the_other_laws(data):
    drawn = data.draw(etas(E3(), reach=0.55))
    assert_group(E3(), drawn, tolerance=1e-11, laws=WITHOUT_HOMOMORPHISM)


@given(rows=st.lists(st.permutations(range(6)), min_size=3, max_size=3))
def test_permutations_keep_the_laws(rows):
    group = Permutation(6)
    drawn = torch.tensor(rows) - torch.arange(6)
    assert_group(group, drawn, laws=WITHOUT_HOMOMORPHISM)


@pytest.mark.parametrize("group", NO_HOMOMORPHISM, ids=repr)
@given(data=st.data())
def test_groups_of_several_pieces_keep_the_other_laws(group, data):
    drawn = data.draw(etas(group))
    assert_group(group, drawn, tolerance=1e-11, laws=WITHOUT_HOMOMORPHISM)


@pytest.mark.parametrize("group", NO_HOMOMORPHISM[1:], ids=repr)
def test_and_only_those(group):
    rows = torch.tensor([[1.0 if p.unit == "step" else 0.3 for p in group.parameters]])
    assert group_error(group, rows)["homomorphism"] > 0.1


@pytest.mark.parametrize("group", FAMILIES, ids=repr)
@given(data=st.data())
def test_families_that_are_not_closed_keep_the_laws_of_matrices(group, data):
    drawn = data.draw(etas(group))
    assert not group.closed
    assert set(group_error(group, drawn)) == {
        "identity",
        "inverse",
        "associativity",
        "homomorphism",
    }
    assert_group(group, drawn)


EVERY = LIE + FINITE + MIXED + NO_HOMOMORPHISM + SPACE + [E3(), Permutation(4)]


def leaves(element):
    return (
        [x for part in element for x in leaves(part)] if isinstance(element, tuple) else [element]
    )


def fixed_etas(group, *batch, dtype=torch.float32, device="cpu"):
    generator = torch.Generator().manual_seed(0)
    eta = 2 * torch.rand(*batch, group.dim, generator=generator) - 1
    eta = 0.8 * eta * torch.tensor(group.bounds)
    whole = torch.tensor([unit == "step" for unit in group.units])
    return torch.where(whole, eta.round(), eta).to(dtype=dtype, device=device)


@pytest.mark.parametrize("group", EVERY, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_leading_dimensions_and_dtype(group, dtype):
    eta = fixed_etas(group, 2, 3, dtype=dtype)
    a = group.exp(eta)
    product = group.compose(a, group.inverse(a), a)
    assert group.log(product).shape == (2, 3, group.dim)
    one = group.exp(eta[1, 2])
    for whole, single in zip(leaves(a), leaves(one), strict=True):
        torch.testing.assert_close(whole[1, 2], single)
        assert whole.dtype == (dtype if whole.is_floating_point() else torch.int64)
    identity = group.identity(2, 3, dtype=dtype)
    for unit, element in zip(leaves(identity), leaves(product), strict=True):
        assert (unit.shape, unit.dtype) == (element.shape, element.dtype)
    assert not group.log(identity).any()


@pytest.mark.parametrize("group", EVERY, ids=repr)
def test_nothing_waits_for_a_device(group):
    # Tensors on "meta" have no values: looking at one, or mixing in a CPU tensor, would raise.
    eta = fixed_etas(group, 4, device="meta")
    a = group.compose(group.exp(eta), group.inverse(group.identity(4, device="meta")))
    assert group.log(a).device.type == "meta"


@pytest.mark.parametrize("group", EVERY, ids=repr)
def test_vmap_and_compile(group):
    eta = fixed_etas(group, 5)

    def round_trip(eta):
        a = group.exp(eta)
        return group.log(group.compose(a, group.inverse(a), a))

    expected = round_trip(eta)
    torch.testing.assert_close(torch.func.vmap(round_trip)(eta), expected, atol=1e-5, rtol=1e-5)
    torch.compiler.reset()
    compiled = torch.compile(round_trip, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(eta), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("group", [g for g in EVERY if not isinstance(g, FiniteGroup)], ids=repr)
def test_the_derivative_of_the_round_trip_is_one_at_zero(group):
    zero = torch.zeros(group.dim, dtype=torch.float64)
    jacobian = torch.func.jacrev(lambda eta: group.log(group.exp(eta)).to(eta))(zero)
    smooth = torch.tensor([unit != "step" for unit in group.units], dtype=torch.float64)
    torch.testing.assert_close(jacobian, torch.diag(smooth))


@pytest.mark.parametrize("group", EVERY, ids=repr)
@pytest.mark.parametrize("extra", [-1, 1])
def test_wrong_number_of_parameters(group, extra):
    with pytest.raises(ValueError, match=r"eta: expected shape \(\.\.\., .*group\.names"):
        group.exp(torch.zeros(2, group.dim + extra))


def same(a, b):
    """Whether two elements are one, up to whole turns of a colour that is not wrapped."""
    if isinstance(a, tuple):
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(torch.allclose(a.double(), b.double(), atol=1e-10))


@pytest.mark.parametrize("group", [*EVERY[:-1], *FAMILIES], ids=repr)
def test_what_learners_ask_a_group(group):
    """Properties of a group against what its elements do."""
    generator = torch.Generator().manual_seed(0)
    unit = 2 * torch.rand(20, group.dim, generator=generator, dtype=torch.float64) - 1
    eta = torch.stack(
        [
            (unit[:, i] * p.bound).round() if p.unit == "step" else 0.9 * p.bound * unit[:, i]
            for i, p in enumerate(group.parameters)
        ],
        -1,
    )
    element = group.exp(eta)
    inverts = same(group.exp(-eta), group.inverse(element))
    assert inverts or not group.negation_inverts
    if not group.finite and not any(factor.finite for factor in group.factors):
        assert group.negation_inverts == inverts
    first, second = group.exp_pair(eta)
    assert same(first, element)
    assert same(second, group.inverse(element))
    assert group.finite == isinstance(group, FiniteGroup)
    if group.finite:
        assert len(group.elements()) == group.order
    else:
        with pytest.raises(ValueError, match="expected a finite group"):
            group.elements()
    matrices = isinstance(element, torch.Tensor) and element.shape[-2:] == (3, 3)
    assert group.planar == (matrices and group.coordinates == 2)
    assert [part.dim for part in group.factors] == [
        torch.as_tensor(factor.log(part)).shape[-1]
        for factor, part in zip(group.factors, group.parts(element), strict=True)
        if factor.closed
    ] or not group.closed
    assert same(group.whole(group.parts(element)), element)
    assert group.named_log(element).shape == eta.shape
    nothing = group.distance_to_identity(group.identity(1, dtype=torch.float64))
    assert nothing.tolist() == [0.0]
    if group.positional:
        target = 0.1 * unit[:, :2]
        reached = group.exp(group.generator_shifts(torch.cat((target, eta[:, 2:]), -1)))
        torch.testing.assert_close(reached[:, :2, 2], target)
    if group.zoom_columns:
        zoomed = eta.clone()
        zoomed[:, list(group.zoom_columns)] += 0.3
        ratio = torch.linalg.det(group.exp(zoomed)) / torch.linalg.det(element)
        torch.testing.assert_close(ratio, torch.full_like(ratio, 0.6).exp())


@pytest.mark.parametrize(
    ("group", "changes"),
    [
        *((Colour("hue"), True), (SE2(), False), (Cyclic(4), False), (Signal("shift"), False)),
        *((Signal("offset"), True), (MIXED[0], True), (MIXED[1], False)),
    ],
    ids=repr,
)
def test_colours_and_amplitudes_change_values(group, changes):
    assert group.changes_values == changes
