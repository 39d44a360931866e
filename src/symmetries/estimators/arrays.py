"""Validation of an estimator's arrays by scikit-learn, with errors in the library's form.

Its own words stay in the message, as programs (and ``check_estimator``) look for some of them.
"""

import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d, validate_data

from symmetries._validation.checks import invalid, short

# Part of scikit-learn's words, what is expected then, and what to do.
Reasons = tuple[tuple[str, str, str], ...]
SHARED: Reasons = (
    ("NaN", "finite numbers", "fill in or drop what is missing, as with SimpleImputer"),
    ("infinity", "finite numbers", "clip or drop what is infinite"),
    ("Complex", "real numbers", "take the real part, or the modulus"),
)
OF_X: Reasons = (
    *SHARED,
    ("0 sample", "at least one image", "check what selects the rows"),
    ("0 feature", "at least one pixel for each image", "check what selects the columns"),
    ("Reshape", "one row for each image", "Reshape your data: (N, H, W), (N, C, H, W) or (N, H*W)"),
    ("is expecting", "images as in fit", "give as many pixels as there"),
    ("eature names", "the columns that fit had", "give them by the same names, in that order"),
    ("parse", "a dense array", "use X.toarray()"),
    ("", "an array of numbers, one row for each image", "use numpy.asarray(images, dtype=float)"),
)
OF_Y: Reasons = (
    *SHARED,
    ("label type", "class labels", "for numbers take a regressor"),
    ("1d array", "one target for each image", "give an array (N,)"),
    ("", "an array (N,), one target for each image", "use numpy.asarray(y)"),
)

OF_SEEDS: Reasons = (("", "a seed, a numpy.random.RandomState or None", "try 0"),)


def read_rows(
    estimator: BaseEstimator, X: ArrayLike, reset: bool, **options: bool
) -> NDArray[np.float64]:
    """X as an array of finite numbers; ``reset`` is for ``fit``, ``options`` of scikit-learn."""
    with _named_errors("X", X, OF_X):
        rows: NDArray[np.float64] = validate_data(
            estimator, X, reset=reset, dtype=np.float64, **options
        )
    return rows


def read_classes(y: ArrayLike, count: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct labels, and for each image the position of its label."""
    column = read_targets(y, count)
    with _named_errors("y", y, OF_Y):
        check_classification_targets(column)
    classes, numbers = np.unique(column, return_inverse=True)
    if len(classes) < 2:
        got = f"one class, {classes[0]}"
        raise invalid("y", "at least two classes", got, "there is nothing to tell apart")
    return classes, numbers.astype(np.int64)


def read_numbers(y: ArrayLike, count: int) -> NDArray[np.float64]:
    """Return the targets as finite numbers."""
    with _named_errors("y", y, OF_Y):
        numbers = read_targets(y, count).astype(np.float64)
        assert_all_finite(numbers, input_name="y")
    return numbers


def read_targets(y: ArrayLike, count: int) -> NDArray[Any]:
    """Return the targets as one column of the right length."""
    with _named_errors("y", y, OF_Y):
        column: NDArray[Any] = column_or_1d(y, warn=True)
    if len(column) != count:
        expected = f"{count} targets, one for each image"
        raise invalid("y", expected, f"{len(column)}", "are rows missing?")
    return column


def read_seed(random_state: int | np.random.RandomState | None) -> int:
    """Return a seed for torch, from what scikit-learn takes as ``random_state``."""
    with _named_errors("random_state", random_state, OF_SEEDS):
        return int(check_random_state(random_state).randint(2**31 - 1))


def given_seed(random_state: int | np.random.RandomState | None) -> int | None:
    """Return the seed as messages show it: the given number, if it was a number."""
    return int(random_state) if isinstance(random_state, numbers.Integral) else None


@contextmanager
def _named_errors(name: str, values: object, reasons: Reasons) -> Iterator[None]:
    """Translate errors inside the block into errors that name the argument."""
    try:
        yield
    except (ValueError, TypeError) as error:
        text = str(error)
        if text.startswith(f"{name}: expected"):  # already in our form
            raise
        expected, remedy = next(rest for word, *rest in reasons if word in text)
        words = text if "feature names" in text else text.partition("\n")[0].rstrip(":.")
        message = invalid(name, expected, f"{described(values)} ({words})", remedy)
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(str(message)) from error


def described(values: object) -> str:
    """Describe an argument in a few words, for an error message.

    Example:
        >>> described(np.zeros((2, 3))), described(None)
        ('ndarray of shape (2, 3), float64', 'None')
    """
    shape, dtype = getattr(values, "shape", None), getattr(values, "dtype", None)
    if shape is None:
        return short(values)
    kind = f"{type(values).__name__} of shape {shape}"
    return kind if dtype is None else f"{kind}, {dtype}"
