"""Warnings of a computation, collected so that its result can carry them."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

Caught = list[warnings.WarningMessage]


@contextmanager
def collect_warnings(into: list[str]) -> Iterator[None]:
    """Append the texts of RuntimeWarnings, which is what this package warns with, to a list.

    They are not shown; who gets the list shows them. If the computation fails they are shown, and
    so are all other warnings, under the filters that there are.

    Args:
        into: receives each text once.

    Example:
        >>> texts = []
        >>> with collect_warnings(texts):
        ...     warnings.warn("too few images", RuntimeWarning, stacklevel=1)
        >>> texts
        ['too few images']
    """
    caught: Caught = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    except BaseException:
        _show(caught)
        raise
    own = [one for one in caught if issubclass(one.category, RuntimeWarning)]
    _show(one for one in caught if one not in own)
    into.extend(dict.fromkeys(" ".join(str(one.message).split()) for one in own))


def _show(caught: Iterable[warnings.WarningMessage]) -> None:
    """Issue warnings again, each once."""
    seen = set()
    for one in caught:
        key = (str(one.message), one.category, one.filename, one.lineno)
        if key not in seen:
            seen.add(key)
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
