"""Rules for the fields of configurations, read from the types that they are declared with."""

import math
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from symmetries._validation.checks import (
    LARGEST,
    check_choice,
    check_flag,
    check_number,
    check_positive,
    check_whole,
    invalid,
    short,
)


class Within(NamedTuple):
    """The range of a number, for ``Annotated[float, Within(0, 1)]``."""

    least: float = -math.inf
    most: float = math.inf


Share = Annotated[float, Within(0, 1)]
NonNegative = Annotated[float, Within(0)]
Positive = Annotated[float, "positive"]
Count = Annotated[int, Within(0, LARGEST)]  # may be 0, which a plain int may not
Size = Annotated[int, Within(1, 10**6)]  # of samples, layers, units


@cache
def field_types(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a class
    """Return the declared types of a configuration's fields, by name."""
    return get_type_hints(kind, include_extras=True)


def check_field(value: object, name: str, kind: Any) -> None:  # noqa: ANN401 - a type
    """Raise an error unless a value suits the declared type of its field.

    Choices are ``Literal``, whole numbers are at least 1, and numbers are finite; ``Annotated``
    says which range they are in. Types that are not listed here are not checked.

    Example:
        >>> check_field("mean", "kind", Literal["sum", "max"])
        Traceback (most recent call last):
        ValueError: kind: expected one of 'max', 'sum', got 'mean'; choose one of these
    """
    if get_origin(kind) in (Union, UnionType):
        if value is None:
            return
        kind = next(part for part in get_args(kind) if part is not NoneType)
    rule: Any = None
    if get_origin(kind) is Annotated:
        kind, rule = get_args(kind)
    if get_origin(kind) is Literal:
        check_choice(value, get_args(kind), name)
    elif kind is bool:
        check_flag(value, name)
    elif kind is int:
        check_whole(value, name, *(() if rule is None else map(int, rule)))
    elif kind is float and rule == "positive":
        check_positive(value, name)
    elif kind is float:
        check_number(value, name, *(rule or ()))
    elif kind == tuple[int, ...]:
        if not isinstance(value, tuple | list):
            raise invalid(name, "a tuple of whole numbers", short(value), "try (64, 32)")
        for size in value:
            check_whole(size, name, most=10**6)
