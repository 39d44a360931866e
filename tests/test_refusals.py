"""What is refused is refused in words that help, at no cost where nothing is wrong."""

import numpy as np
import pytest
import torch
from torch import nn

from symmetries._validation.checks import as_device, as_folder, invalid
from symmetries._validation.diagnose import diagnose_labels, diagnose_values
from symmetries.estimators import InvariantClassifier, InvariantRegressor
from symmetries.groups import Cyclic
from symmetries.nn.conversion import bake, export, export_onnx, relax_convolutions
from symmetries.nn.relaxation import (
    equivariance_errors,
    relaxation,
    relaxation_penalty,
)
from symmetries.nn.tied import group_permutations
from symmetries.training import LossError, TrainConfig, train

FORM = r"^{}: expected .+, got .+; \S"


@pytest.mark.parametrize("device", ["gpu", "", "meta", "cuda:99", 0, None, b"cpu"])
def test_devices_that_are_not_there(device):
    with pytest.raises((ValueError, TypeError), match=r"this machine has 'cpu'"):
        as_device(device)


def test_a_file_is_no_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    assert as_folder(tmp_path / "new") == tmp_path / "new"
    with pytest.raises(ValueError, match="which is a file"):
        as_folder(file)


def test_messages_show_something_and_end():
    assert "got an empty string;" in str(invalid("a", "b", "", "c"))
    assert len(str(invalid("a", "b", "x" * 10**6, "c"))) < 2000


def test_labels_are_blamed_only_for_what_they_did():
    with (
        pytest.raises(ValueError, match=r"0 to 2, got -1 to 1"),
        diagnose_labels(torch.tensor([-1, 1]), 3),
    ):
        raise IndexError("out of bounds")
    with pytest.raises(RuntimeError, match="another"), diagnose_labels(torch.tensor([0, 1]), 3):
        raise RuntimeError("another")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_values_are_blamed_only_for_what_they_did(value):
    with (
        pytest.raises(ValueError, match=FORM.format("x")),
        diagnose_values(torch.tensor([0.0, value]), "x"),
    ):
        raise RuntimeError("invalid multinomial distribution")
    with pytest.raises(RuntimeError, match="another"), diagnose_values(torch.zeros(2), "x"):
        raise RuntimeError("another")


def _train(loss):
    data = torch.zeros(8, 3), torch.zeros(8, dtype=torch.int64)
    config = TrainConfig(steps=1, batch_size=4, device="cpu", progress=False)
    train(nn.Linear(2, 2), loss, data, config)


def test_a_loss_that_fails_is_told_with_its_batch():
    def loss(model, batch, step):
        return {"loss": model(batch[0]).mean()}

    with pytest.raises(LossError, match=r"mat1 and mat2.*\(4, 3\) torch.float32") as caught:
        _train(loss)
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("error", [ValueError, KeyError, torch.OutOfMemoryError])
def test_other_errors_of_a_loss_pass_as_they_are(error):
    def loss(model, batch, step):
        raise error("its own")

    with pytest.raises(error, match="its own") as caught:
        _train(loss)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (None, "Reshape your data"),
        (np.full((4, 9), np.nan), "fill in or drop"),
        (np.zeros((4, 9), complex), "Complex data not supported"),
        ([np.zeros(2), np.zeros(3)], "one row for each image"),
        (np.zeros((0, 9)), "at least one image"),
        ("text", "numpy.asarray"),
    ],
)
def test_images_are_refused_with_a_remedy_and_scikit_learn_s_reason(X, words):
    with pytest.raises((ValueError, TypeError), match=FORM.format("X")) as caught:
        InvariantClassifier().fit(X, [0, 1, 0, 1])
    assert words in str(caught.value)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("y", [None, 3, [[0, 1]] * 4, [0, 1], [0, 1, np.nan, 1], "text"])
def test_targets_are_refused_by_name(y):
    with pytest.raises((ValueError, TypeError), match=FORM.format("y")):
        InvariantRegressor().fit(np.random.default_rng(0).random((4, 9)), y)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: relax_convolutions(3, Cyclic(4)), "model"),
        (lambda: relax_convolutions(nn.Conv2d(1, 4, 3), "rotation"), "group"),
        (lambda: bake(nn.Conv2d(1, 4, 3).eval(), [1.0]), "example"),
        (lambda: export(nn.Conv2d(1, 4, 3).eval(), torch.rand(9, 9)), "example"),
        (lambda: export_onnx(nn.Conv2d(1, 4, 3).eval(), torch.rand(2, 1, 9, 9), 3), "path"),
        (lambda: export_onnx(nn.Conv2d(1, 4, 3).eval(), torch.rand(2, 1, 9, 9), "."), "path"),
        (lambda: relaxation(None), "model"),
        (lambda: relaxation_penalty([]), "model"),
        (lambda: equivariance_errors(nn.Conv2d(1, 4, 3), torch.rand(0, 1, 9, 9)), "images"),
        (lambda: group_permutations(4, 1), "group"),
        (lambda: group_permutations(Cyclic(4), -1), "channels"),
    ],
)
def test_functions_of_layers_refuse_by_name(call, name):
    with pytest.raises((ValueError, TypeError), match=FORM.format(name)):
        call()
