"""The reader of plain pickles runs nothing, whatever a pickle asks for."""

import collections
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from symmetries.data.pickles import read_plain_pickle

HERE = Path("here")


class Runs:
    """Pickles to a call of the given function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_code_is_refused(tmp_path, protocol):
    trace = tmp_path / "ran"
    data = pickle.dumps({"data": Runs(os.mkdir, str(trace))}, protocol)
    with pytest.raises(ValueError, match=r"the name .*mkdir"):
        read_plain_pickle(data, HERE, ["data"])
    assert not trace.exists()
    pickle.loads(data)  # noqa: S301 - the control: a usual reader does run it
    assert trace.exists()


@pytest.mark.parametrize(
    "value",
    [
        Runs(eval, "1"),
        Runs(np.load, "file.npy"),
        collections.OrderedDict(a=1),
        np.float64(1.0),
        np.dtype("u1"),
        {1, 2},
        np.array([None, {}], dtype=object),
        np.arange(3),
        np.zeros(2, np.float32),
    ],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_other_objects_are_refused(value, protocol):
    with pytest.raises(ValueError, match="here: expected a pickle of plain data"):
        read_plain_pickle(pickle.dumps({"data": value}, protocol), HERE, ["data"])


@pytest.mark.parametrize("protocol", range(5))
def test_plain_data_comes_through(protocol):
    value = {
        "data": np.arange(12, dtype=np.uint8).reshape(3, 4),
        "labels": [1, 2, 70_000, -5, 2**40],
        "pair": (True, None, "x", False),
        "none": (),
    }
    data = pickle.dumps(value, protocol)
    if protocol < 2:  # these write numpy arrays in ways that CIFAR does not use
        del value["data"]
        data = pickle.dumps(value, protocol)
    found = read_plain_pickle(data, HERE, list(value))
    assert found.keys() == value.keys()
    assert found["labels"] == value["labels"]
    assert found["pair"] == value["pair"]
    assert found["none"] == ()
    if protocol >= 2:
        assert np.array_equal(found["data"], value["data"])


def test_fortran_order_is_kept():
    array = np.asfortranarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    found = read_plain_pickle(pickle.dumps({"data": array}, 2), HERE, ["data"])
    assert np.array_equal(found["data"], array)


def test_every_cut_is_an_error():
    whole = pickle.dumps({"data": np.arange(6, dtype=np.uint8), "labels": [1, 2]}, 2)
    for end in range(len(whole)):
        with pytest.raises(ValueError, match="here: expected"):
            read_plain_pickle(whole[:end], HERE, ["data"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_noise_is_an_error_or_plain_data():
    """Single damaged bytes: an error of ours or a dictionary, never another exception."""
    whole = pickle.dumps({"data": np.arange(6, dtype=np.uint8), "labels": [1, 2]}, 2)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(2000):
        data = bytearray(whole)
        data[rng.integers(len(data))] = rng.integers(256)
        message = ""
        try:
            read_plain_pickle(bytes(data), HERE, ["data", "labels"])
        except ValueError as error:
            message = str(error)
        assert message == "" or message.startswith("here: expected")
        refused += bool(message)
    assert refused > 500


def test_references_do_not_multiply():
    """Lists of references to lists ("a billion laughs") stay as small as the file."""
    level = [0]
    for _ in range(60):
        level = [level, level]
    data = pickle.dumps({"data": level, "labels": [1]}, 2)
    assert read_plain_pickle(data, HERE, ["labels"]) == {"labels": [1]}
