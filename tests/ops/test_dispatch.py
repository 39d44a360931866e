"""The registry of fused operations: switches, the environment variable, and records."""

import pytest
import torch

from symmetries import ops
from symmetries.ops import _dispatch
from symmetries.ops._dispatch import VARIABLE, enabled, usable, verified


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Let tensors on the CPU count as readable, as Triton's interpreter does."""
    monkeypatch.setattr(_dispatch, "_INTERPRETED", True)
    monkeypatch.setattr(_dispatch, "_HAS_TRITON", True)
    monkeypatch.delenv(VARIABLE, raising=False)


def test_disabled_operations_are_refused_inside_the_block_only():
    x = torch.zeros(3)
    with ops.disabled("warp"):
        assert not usable("warp", x)
        with ops.disabled("adam"):
            assert not usable("warp", x)
            assert not enabled("adam")
        assert enabled("adam")
    assert usable("warp", x)


def test_a_block_that_fails_restores_the_switches():
    with pytest.raises(KeyError), ops.disabled("warp"):
        raise KeyError
    assert enabled("warp")


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("0", set(ops.OPERATIONS)),
        ("1", set()),
        ("", set()),
        ("-warp", {"warp"}),
        ("-warp, -adam", {"warp", "adam"}),
    ],
)
def test_the_variable_switches_operations_off(monkeypatch, text, off):
    monkeypatch.setenv(VARIABLE, text)
    assert {name for name in ops.OPERATIONS if not enabled(name)} == off
    assert {name for name in ops.OPERATIONS if not usable(name, torch.zeros(2))} == off


@pytest.mark.parametrize("text", ["warp", "-wrap", "off"])
def test_an_unknown_value_of_the_variable_is_named(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ValueError, match=r"SYMMETRIES_KERNELS: expected .* got"):
        enabled("warp")


def test_an_unknown_operation_cannot_be_disabled():
    with pytest.raises(ValueError, match=r"operations: expected .*'wrap'"), ops.disabled("wrap"):
        pass


def test_records_tell_which_operations_ran_fused():
    with ops.recorded() as seen:
        usable("warp", torch.zeros(2))
        usable("warp", torch.zeros(2, dtype=torch.float64))
        usable("spline", torch.zeros(0))
    usable("adam", torch.zeros(2))
    assert seen == {"warp": True, "spline": False}


@pytest.mark.filterwarnings("ignore:.*wrong on this device")
def test_kernels_are_verified_once_for_each_case_and_device():
    known, trials = {}, []

    def trial():
        trials.append(1)
        return 0.5

    device = torch.device("cpu")
    for _ in range(2):
        assert not verified(("a",), device, trial, 0.1, known)
        assert verified(("b",), device, trial, 1.0, known)
    assert len(trials) == 2


def test_kernels_are_not_verified_during_a_capture(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    device = torch.device("cuda", 0)
    known = {(device, "before"): True}
    assert not verified(("new",), device, lambda: 0.0, 1.0, known)
    assert verified(("before",), device, lambda: 0.0, 1.0, known)
    assert known == {(device, "before"): True}  # nothing is concluded from a capture
