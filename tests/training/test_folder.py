"""One run owns its folder, and what it writes there."""

import csv
import os
import subprocess
import sys

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from symmetries.training import FolderInUseError, NonFiniteError, train
from symmetries.training.atomic_files import folder_lock
from symmetries.training.history import History

from .helpers import loss, make_config, make_data, make_model

HOLD = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(file, fcntl.LOCK_EX)
os.write(file, f"{os.getpid()}\\n".encode())
sys.stdout.write("held\\n"); sys.stdout.flush()
sys.stdin.readline()
"""


def test_second_run_in_this_process_is_refused(tmp_path):
    def on_step(step, metrics):
        with pytest.raises(FolderInUseError, match=str(os.getpid())):
            train(make_model(), loss, make_data(), make_config(tmp_path))

    train(make_model(), loss, make_data(), make_config(tmp_path, steps=3), on_step=on_step)
    train(make_model(), loss, make_data(), make_config(tmp_path))


def test_lock_of_another_process_holds_until_it_dies(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / ".lock")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(FolderInUseError, match=f"process {other.pid}"):
            train(make_model(), loss, make_data(), make_config(tmp_path))
        other.kill()
    assert (tmp_path / ".lock").read_text() == f"{other.pid}\n", "a stale lock is there"
    train(make_model(), loss, make_data(), make_config(tmp_path))


def test_lock_goes_with_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="mine"), folder_lock(tmp_path):
        raise RuntimeError("mine")
    with folder_lock(tmp_path):
        pass


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write"):
        train(make_model(), loss, make_data(), make_config(tmp_path / "file"))


def test_removed_folder_gives_a_clear_error(tmp_path):
    out = tmp_path / "run"

    def on_step(step, metrics):
        if step.index == 6:
            for path in [*out.iterdir()]:
                path.unlink()
            out.rmdir()

    with pytest.raises(OSError, match=r"metrics.csv: cannot write"):
        train(make_model(), loss, make_data(), make_config(out), on_step=on_step)


def test_metrics_as_csv(tmp_path):
    history = train(make_model(), loss, make_data(), make_config(tmp_path))
    assert history.step == [1, 4, 8, 12, 16, 20, 24]
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == history.step
    for name in ("loss", "error", "lr"):
        assert [float(row[name]) for row in rows] == history[name]
    assert history.seconds > 0
    assert history.steps_per_second > 0


def test_csv_after_a_resume_has_each_row_once(tmp_path):
    def on_step(step, metrics):
        if step.index == 18:  # two looks after the checkpoint at 15
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        train(make_model(), loss, make_data(), make_config(tmp_path), on_step=on_step)
    train(make_model(), loss, make_data(), make_config(tmp_path, resume=True))
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "step",
        "1",
        "4",
        "8",
        "12",
        "16",
        "20",
        "24",
    ]


def test_history_keeps_numbers_that_json_has_not():
    history = History()
    history.append(1, {"loss": 1.0, "ratio": float("nan")}, 0.1)
    history.append(2, {"loss": 0.5, "ratio": float("inf")}, 0.2)
    back = History.from_json(history.to_json())
    assert back["loss"] == [1.0, 0.5]
    assert str(back["ratio"]) == "[nan, inf]"
    assert back.header() == history.header()


def test_terms_must_stay_the_same(tmp_path):
    def changing(model, batch, step):
        terms = dict(loss(model, batch, step))
        return terms if step.index < 7 else {"loss": terms["loss"]}

    with pytest.raises(ValueError, match="same terms at every step"):
        train(make_model(), changing, make_data(), make_config())


def test_tensorboard_that_is_missing_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r"symmetries\[tensorboard\]"):
        train(make_model(), loss, make_data(), make_config(tmp_path, tensorboard=True))


def test_tensorboard_gets_the_numbers(tmp_path):
    config = make_config(tmp_path, tensorboard=True)
    history = train(make_model(), loss, make_data(), config)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert set(history.metrics) <= set(events.Tags()["scalars"])
    losses = events.Scalars("loss")
    assert [event.step for event in losses] == history.step
    assert [event.value for event in losses] == pytest.approx(history["loss"], rel=1e-6)


def breaks_at(index, value=float("nan")):
    def broken(model, batch, step):
        terms = dict(loss(model, batch, step))
        terms["error"] = terms["error"] + (value if step.index == index else 0.0)
        return terms | {"loss": terms["loss"] * (1.0 if step.index != index else value)}

    return broken


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_broken_loss_stops_with_step_cause_and_checkpoint(tmp_path, value):
    with pytest.raises(NonFiniteError) as caught:
        train(make_model(), breaks_at(15, value), make_data(), make_config(tmp_path))
    message = str(caught.value)
    assert message.startswith("step 16: loss =")
    assert "error =" in message
    assert "finite after step 12" in message
    assert "learning rate" in message
    assert "checkpoint.json, after step 15" in message


def test_loss_broken_from_the_start_blames_data_or_weights():
    x, y = make_data()
    with pytest.raises(NonFiniteError, match=r"step 1: .*huge numbers in the data.*No checkpoint"):
        train(make_model(), loss, (x * float("nan"), y), make_config())


def test_broken_weights_never_replace_a_good_checkpoint(tmp_path):
    # The loss breaks at step 14 and the checkpoint comes at 15, before the next look at 16.
    with pytest.raises(NonFiniteError, match=r"weight '0.weight'.*after step 15.*after step 10"):
        train(make_model(), breaks_at(13), make_data(), make_config(tmp_path))
    model = make_model()
    config = make_config(tmp_path, resume=True)
    train(model, loss, make_data(), config)
    assert all(bool(torch.isfinite(value).all()) for value in model.state_dict().values())
