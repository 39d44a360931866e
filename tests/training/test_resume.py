"""A run that was stopped and goes on ends with the weights of one that was not, bit for bit."""

import json
import signal
import threading
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from symmetries._utils import provenance
from symmetries._utils.provenance import learner_digest
from symmetries.learners.invariant_vae.losses import beta, joint_loss
from symmetries.learners.symmetry_model.losses import generative_loss
from symmetries.training import fingerprint as fingerprints
from symmetries.training import loop, train
from symmetries.training.checkpoint import CheckpointError, load_state, write_state
from symmetries.training.fingerprint import fingerprint

from .helpers import assert_weights, loss, make_config, make_data, make_model, run_jobs, same_state


class StopHere(Exception):
    pass


def stop_after(steps, error=StopHere):
    def on_step(step, metrics):
        if step.index + 1 == steps:
            raise error

    return on_step


def optimizer_state(out):
    names = [path for path in out.iterdir() if path.suffix == ".safetensors"]
    assert len(names) == 1
    return names[0].read_bytes()


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_resumed_run_is_bit_identical(tmp_path, optimizer):
    settings = {"algorithm": optimizer, "momentum": 0.9, "weight_decay": 0.01}
    whole, parts = make_model(), make_model()
    history = train(whole, loss, make_data(), make_config(tmp_path / "whole", **settings))
    with pytest.raises(StopHere):
        train(
            parts,
            loss,
            make_data(),
            make_config(tmp_path / "a", **settings),
            on_step=stop_after(13),
        )
    parts = make_model(seed=99)  # what it starts from must not matter
    config = make_config(tmp_path / "a", resume=True, **settings)
    resumed = train(parts, loss, make_data(), config)
    assert same_state(whole, parts)
    # The tensors' file holds the optimiser's state too, and is named by its hash.
    assert optimizer_state(tmp_path / "whole") == optimizer_state(tmp_path / "a")
    assert resumed.step == history.step
    assert resumed.metrics == history.metrics


def test_the_dropout_model_really_draws():
    a, b = make_model(), make_model()
    train(a, loss, make_data(), make_config(seed=1, steps=3))
    train(b, loss, make_data(), make_config(seed=2, steps=3))
    assert not same_state(a, b)


def test_killed_processes_resume_bit_identical(start_script, tmp_path):
    whole = make_model()
    train(whole, loss, make_data(), make_config())
    job = {"configs": [{"out": str(tmp_path / "run"), "resume": True}]}
    job["result"] = str(tmp_path / "result.json")
    # Before the first checkpoint, before the second is written, after the third, and later.
    codes, errors = run_jobs(start_script, [job | {"kill": kill} for kill in (4, 10, 16, 19, None)])
    assert codes == [[-signal.SIGKILL]] * 4 + [[0]], errors
    assert json.loads((tmp_path / "result.json").read_text())["steps"] == list(range(15, 24))
    assert_weights(tmp_path / "result.json", whole)


def test_kill_between_the_two_files_leaves_the_old_state(tmp_path, monkeypatch):
    from symmetries.training import checkpoint

    model = make_model()
    with pytest.raises(StopHere):
        train(model, loss, make_data(), make_config(tmp_path), on_step=stop_after(7))
    before = (tmp_path / "checkpoint.json").read_bytes()
    write = checkpoint.write_atomic

    def dies_at_json(path, content):
        if path.name == "checkpoint.json":
            raise StopHere
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_atomic", dies_at_json)
        with pytest.raises(StopHere):
            train(model, loss, make_data(), make_config(tmp_path, resume=True))
    assert (tmp_path / "checkpoint.json").read_bytes() == before
    train(model, loss, make_data(), make_config(tmp_path, resume=True))
    whole = make_model()
    train(whole, loss, make_data(), make_config())
    assert same_state(whole, model)
    assert len(list(tmp_path.glob("*.safetensors"))) == 1, "left-over tensors are removed"


@pytest.mark.parametrize("source", ["on_step", "signal"])
def test_ctrl_c_keeps_the_whole_step(tmp_path, source):
    def on_step(step, metrics):
        if step.index + 1 == 13:
            if source == "signal":
                signal.raise_signal(signal.SIGINT)
            else:
                raise KeyboardInterrupt

    model = make_model()
    with pytest.raises(KeyboardInterrupt) as caught:
        train(model, loss, make_data(), make_config(tmp_path), on_step=on_step)
    assert "resume=True" in caught.value.__notes__[0]
    assert json.loads((tmp_path / "checkpoint.json").read_text())["meta"]["step"] == 13
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train(model, loss, make_data(), make_config(tmp_path, resume=True))
    whole = make_model()
    train(whole, loss, make_data(), make_config())
    assert same_state(whole, model)


def test_a_second_ctrl_c_stops_at_once():
    def slow(model, batch, step):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise StopHere

    with pytest.raises(KeyboardInterrupt):
        train(make_model(), slow, make_data(), make_config())


def test_training_in_a_thread_leaves_signals_alone():
    errors = []

    def run():
        try:
            train(make_model(), loss, make_data(), make_config(steps=2, warmup=0))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not errors


def test_finished_run_resumes_to_its_end(tmp_path):
    model = make_model()
    history = train(model, loss, make_data(), make_config(tmp_path))
    other = make_model(seed=3)
    again = train(other, loss, make_data(), make_config(tmp_path, resume=True))
    assert same_state(model, other)
    assert again.metrics == history.metrics
    assert again.steps_per_second == 0.0


def test_constant_schedule_can_be_prolonged(tmp_path):
    short = {"schedule": "constant", "steps": 12, "warmup": 1 / 4}
    plain = lambda model, batch, step: {"loss": (model(batch[0]) - batch[1]).square().mean()}  # noqa: E731
    train(make_model(), plain, make_data(), make_config(tmp_path, **short))
    longer = make_model(seed=1)
    settings = short | {"steps": 24, "warmup": 1 / 8, "resume": True}  # as many
    train(longer, plain, make_data(), make_config(tmp_path, **settings))
    whole = make_model()
    train(whole, plain, make_data(), make_config(schedule="constant"))
    assert same_state(whole, longer)


def test_fresh_start_forgets_the_earlier_run(tmp_path):
    train(make_model(), loss, make_data(), make_config(tmp_path))
    with pytest.raises(StopHere):
        train(make_model(), loss, make_data(), make_config(tmp_path), on_step=stop_after(2))
    assert not (tmp_path / "checkpoint.json").exists(), "a resume would pick the old run"


@pytest.mark.parametrize(("change", "name"), [({"lr": 0.1}, "lr"), ({"seed": 8}, "seed")])
def test_resume_with_other_settings_is_refused(tmp_path, change, name):
    train(make_model(), loss, make_data(), make_config(tmp_path))
    with pytest.raises(ValueError, match=f"{name}: expected"):
        train(make_model(), loss, make_data(), make_config(tmp_path, resume=True, **change))


def test_resume_with_another_model_or_data_is_refused(tmp_path):
    train(make_model(), loss, make_data(), make_config(tmp_path))
    config = make_config(tmp_path, resume=True)
    x, y = make_data()
    with pytest.raises(ValueError, match="examples"):
        train(make_model(), loss, (x[:-1], y[:-1]), config)
    torch.manual_seed(0)
    wide = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.Linear(9, 1))
    with pytest.raises(ValueError, match="another model"):
        train(wide, loss, make_data(), config)


def test_resume_with_as_many_other_examples_is_refused(tmp_path):
    train(make_model(), loss, make_data(), make_config(tmp_path))
    config = make_config(tmp_path, resume=True)
    x, y = make_data()
    one = x.clone()
    one[3, 1] += 1
    for data in ((one, y), (x, y + 1), (x.flip(0), y)):
        with pytest.raises(ValueError, match=r"data: expected the data of .* hash .*; resume with"):
            train(make_model(), loss, data, config)
    train(make_model(), loss, (x.clone(), y.clone()), config)  # the same numbers elsewhere


def test_a_checkpoint_that_does_not_know_its_data_resumes(tmp_path):
    train(make_model(), loss, make_data(), make_config(tmp_path))
    tensors, meta = load_state(tmp_path, "checkpoint")
    del meta["identity"]["data"], meta["given_seed"]
    write_state(tmp_path, "checkpoint", tensors, meta)
    history = train(make_model(), loss, make_data(), make_config(tmp_path, resume=True))
    assert history.steps_per_second == 0.0
    with pytest.raises(ValueError, match="seed: expected the same as in the checkpoint"):
        train(make_model(), loss, make_data(), make_config(tmp_path, resume=True, seed=8))


def test_resume_with_other_code_of_the_learner_is_refused(tmp_path, monkeypatch):
    digests = iter(("before", "before", "after"))
    monkeypatch.setattr(loop, "learner_digest", lambda loss: next(digests))
    train(make_model(), loss, make_data(), make_config(tmp_path))
    config = make_config(tmp_path, resume=True)
    train(make_model(), loss, make_data(), config)
    with pytest.raises(ValueError, match=r"code: expected the learner's code as in .* got after;"):
        train(make_model(), loss, make_data(), config)


def test_a_digest_is_that_of_the_learner():
    digest = learner_digest(joint_loss)
    assert digest == learner_digest(partial(joint_loss, None)) == learner_digest(beta)
    assert digest not in (None, learner_digest(generative_loss))
    assert learner_digest(loss) is None


@pytest.mark.parametrize(
    "part", ["_utils", "nn", "ops", "training", "learners/invariant_vae", "report"]
)
def test_a_digest_changes_with_what_the_learner_stands_on(part, monkeypatch):
    before, digest_of = learner_digest(beta), provenance.source_digest
    changed = {part: "changed"}
    monkeypatch.setattr(provenance, "source_digest", lambda p: changed.get(p) or digest_of(p))
    assert (learner_digest(beta) == before) == (part == "report")


def test_seeds_are_told_as_they_were_given(tmp_path):
    made = {"seed": 6791897765849424158, "given_seed": 1}
    train(make_model(), loss, make_data(), make_config(tmp_path, **made))
    config = make_config(tmp_path, resume=True, seed=5, given_seed=2)
    with pytest.raises(ValueError, match=r"seed: expected 1 as in the checkpoint of .*, got 2;"):
        train(make_model(), loss, make_data(), config)


def test_large_data_are_known_by_rows_spread_over_them():
    x = torch.arange(4000, dtype=torch.float32).reshape(1000, 4)
    whole = fingerprint((x,))
    assert whole == fingerprint((x.clone(),))
    assert fingerprint((x,), most=160) == fingerprint((x.clone(),), most=160) != whole
    changed = x.clone()
    changed[300] = 0  # ten rows are looked at: 0, 100, 200, ...
    assert fingerprint((changed,), most=160) != fingerprint((x,), most=160)
    assert fingerprint((x, x)) == fingerprint((x, x)) != whole
    assert fingerprint((x,), (x,)) == whole  # runs that share their data
    assert fingerprint(Drawn()) is None
    assert fingerprint((torch.zeros(3, 0), torch.zeros(3, dtype=torch.bfloat16))) is not None


def test_data_of_several_runs_are_known_by_values_and_order():
    a, b, y = torch.zeros(4, 2), torch.ones(4, 2), torch.arange(4)
    orders = [(a, b), (b, a), (a, a, b), (a, b, b), (a, b, a), (b, a, a)]
    found = [fingerprint(*((x, y) for x in order)) for order in orders]
    assert len(set(found)) == len(orders)
    for order, known in zip(orders, found, strict=True):
        assert fingerprint(*((x.clone(), y.clone()) for x in order)) == known
        assert known.startswith(f"{len(order)} runs: (4, 2) float32, (4,) int64, hash ")
    assert fingerprint((a, y), (a.clone(), y)) == fingerprint((a, y), (a, y)) == fingerprint((a, y))
    assert fingerprint((a, y), Drawn()) is None


def test_tensors_that_runs_share_are_looked_at_once(monkeypatch):
    seen = []
    look = fingerprints._bytes
    monkeypatch.setattr(fingerprints, "_bytes", lambda x, most: seen.append(x) or look(x, most))
    x = torch.zeros(4, 2)
    labels = [torch.arange(4) + i for i in range(3)]
    fingerprint(*((x, y) for y in labels))
    assert [id(tensor) for tensor in seen] == [id(x), *map(id, labels)]


def test_lazy_views_are_known_by_their_values():
    z = torch.randn(4, 3, dtype=torch.complex64)
    for lazy in (z.conj(), z.conj().imag):
        plain = lazy.resolve_conj().resolve_neg().contiguous()
        assert fingerprint((lazy,)) == fingerprint((plain,))
        assert fingerprint((lazy,), most=32) == fingerprint((plain,), most=32)


def test_corrupt_checkpoint_is_refused(tmp_path):
    train(make_model(), loss, make_data(), make_config(tmp_path))
    (path,) = tmp_path.glob("*.safetensors")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=path.name):
        train(make_model(), loss, make_data(), make_config(tmp_path, resume=True))


class Drawn(Dataset):
    """Items with random numbers of every kind."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        x = torch.full((4,), float(index)) + torch.randn(4) + float(np.random.randn())  # noqa: NPY002
        return x, x.sum()[None]


@pytest.mark.parametrize("workers", [0, 1])
def test_data_set_that_draws_resumes_bit_identical(tmp_path, workers):
    whole, parts = make_model(), make_model()
    train(whole, loss, Drawn(), make_config())
    config = {"workers": workers, "steps": 24}
    with pytest.raises(StopHere):
        train(parts, loss, Drawn(), make_config(tmp_path, **config), on_step=stop_after(7))
    train(parts, loss, Drawn(), make_config(tmp_path, resume=True, **config))
    assert same_state(whole, parts)


def test_global_random_state_is_given_back():
    torch.manual_seed(11)
    np.random.seed(11)  # noqa: NPY002
    expected, expected_numpy = torch.rand(3), np.random.rand(3)  # noqa: NPY002
    torch.manual_seed(11)
    np.random.seed(11)  # noqa: NPY002
    train(make_deterministic(), loss, Drawn(), make_config(steps=2, warmup=0))
    assert torch.equal(torch.rand(3), expected)
    assert np.array_equal(np.random.rand(3), expected_numpy)  # noqa: NPY002


def make_deterministic():
    with torch.random.fork_rng():
        return make_model()
