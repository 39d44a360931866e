"""Groups by name."""

import pytest

from symmetries.groups import (
    SE2,
    Affine2,
    Colour,
    Cyclic,
    CyclicShift,
    Dihedral,
    Flip,
    Product,
    Signal,
    group_name,
    parse_group,
)

CASES = {
    "rotation,translation": Affine2("rotation", "translation"),
    " Rotation , shift_y ": Affine2("rotation", "shift_y"),
    "affine": Affine2(),
    "similarity": Affine2("similarity"),
    "zoom": Affine2("zoom"),
    "colour": Colour(),
    "saturation,hue": Colour("hue", "saturation"),
    "affine,colour": Product(Affine2(), Colour()),
    "hue,rotation,value,scale": Product(Affine2("rotation", "scale"), Colour("hue", "value")),
    "c4": Cyclic(4),
    "C16": Cyclic(16),
    "r4": Cyclic(4),
    "d4": Dihedral(4),
    "t3": CyclicShift("x", 3),
    "t3x": CyclicShift("x", 3),
    "t5y": CyclicShift("y", 5),
    "flip_x": Flip("x"),
    "se2": SE2(),
    "signal": Signal(),
    "offset,shift": Signal("shift", "offset"),
    "colour,t3,flip_y": Product(CyclicShift("x", 3), Flip("y"), Colour()),
}


@pytest.mark.parametrize(("text", "expected"), CASES.items(), ids=CASES)
def test_names(text, expected):
    group = parse_group(text)
    assert repr(group) == repr(expected)
    assert repr(parse_group(group_name(group))) == repr(group)


@pytest.mark.parametrize("text", ["c", "c4x", "t3z", "d-1", "4", "rotation,nothing"])
def test_unknown_names_say_what_is_known(text):
    with pytest.raises(ValueError, match=r"group: expected names among .*shear.*hue.*se2.*c4.*got"):
        parse_group(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("hflip", "flip_x"), ("flip", "flip_x"), ("vflip", "flip_y"), ("color", "colour"),
     ("rotation,colours", "colour"), ("rot90", "c4"), ("rotatoin", "rotation")],
)  # fmt: skip
def test_names_that_others_use_are_answered_in_a_few_words(text, meant):
    message = rf"^group: expected the name of a group, got .*; did you mean {meant}\?$"
    with pytest.raises(ValueError, match=message):
        parse_group(text)


@pytest.mark.parametrize("text", ["", " , "])
def test_nothing(text):
    with pytest.raises(ValueError, match=r"at least one name.*known: shift_x"):
        parse_group(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c0", "whole number of at least 1, got 0"),
        ("rotation,c4", "each name once, got rotation twice"),
        ("zoom,scale", "use either zoom or scale_x and scale_y"),
    ],
)
def test_impossible_groups(text, message):
    with pytest.raises(ValueError, match=message):
        parse_group(text)


def test_a_group_of_ones_own_has_no_name():
    with pytest.raises(ValueError, match="a group that has a name"):
        group_name(object())
