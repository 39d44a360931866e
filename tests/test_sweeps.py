"""Sweeps: one study, any number of processes, nothing lost when one dies."""

import math
import multiprocessing
import os
from pathlib import Path

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from symmetries._utils.config import presets_of
from symmetries.cli import app
from symmetries.learners.symmetry_model import SymmetryConfig
from symmetries.results import RunInfo, SweepResult
from symmetries.sweeps import SweepConfig, collect, join, read_config
from symmetries.sweeps.study import _split, open_study, process_name
from symmetries.sweeps.sweep_objectives import OBJECTIVES, Task
from symmetries.training import NonFiniteError, Recipe, train

PAPERS = Path(__file__).parents[1] / "papers"
RUN = RunInfo(command="x", seed=0, device="cpu", time=0.0, created="now", versions={})


def toy(task, *, lr=0.1, power=2, steps=8, bad=False):
    """A parabola, minimised by the training loop."""
    if bad:
        raise NonFiniteError("broken")
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(3.0)

    def loss(model, batch, step):
        return {"loss": model.weight.abs().pow(power).sum()}

    train(model, loss, (torch.zeros(4, 1),), task.config(steps, 4, lr, algorithm="sgd"))
    return {"distance": float(model.weight.abs()), "steps": float(steps)}


@pytest.fixture(autouse=True)
def toy_learner(monkeypatch):
    monkeypatch.setitem(OBJECTIVES, "toy", toy)


def config(**changes):
    fields = {"learner": "toy", "data": "digits", "measure": "distance", "direction": "minimize"}
    fields |= {"sampler": "grid", "search": {"lr": [0.01, 0.1, 0.3]}, "images": 20}
    return SweepConfig.model_validate({**fields, **changes})


def test_a_grid_is_gone_through_once(tmp_path):
    study = join(config(), tmp_path, device="cpu")
    result = collect(study, config(), RUN)
    assert sorted(t.settings["lr"] for t in result.trials) == [0.01, 0.1, 0.3]
    values = [t.value for t in result.trials]
    assert values == sorted(values), "the best comes first"
    assert result.trials[0].settings["lr"] == 0.3
    again = join(config(), tmp_path, device="cpu")
    assert len(again.trials) == 3, "nothing is done twice"


def test_a_study_goes_on_where_it_was(tmp_path):
    first = config(sampler="random", search={"lr": {"low": 0.01, "high": 0.3, "log": True}})
    join(first.model_copy(update={"trials": 2}), tmp_path, device="cpu")
    study = join(first.model_copy(update={"trials": 5}), tmp_path, device="cpu")
    assert len(study.trials) == 5
    assert all(0.01 <= t.params["lr"] <= 0.3 for t in study.trials)


def test_another_config_is_refused(tmp_path):
    open_study(config(), tmp_path)
    with pytest.raises(ValueError, match="the config that the study was begun with"):
        open_study(config(measure="steps"), tmp_path)


def test_bad_runs_are_stopped_early(tmp_path):
    from optuna.trial import TrialState

    settings = {"steps": 20}
    # The order is a matter of chance: among 24 runs some bad one comes after the first five.
    search = {"lr": [0.3 + i / 100 for i in range(20)] + [1e-4, 2e-4, 3e-4, 4e-4]}
    found = config(pruner="median", search=search, settings=settings, sampler="grid")
    study = join(found, tmp_path, device="cpu")
    assert len(study.trials) == 24
    pruned = [t for t in study.trials if t.state == TrialState.PRUNED]
    assert pruned, "after five runs the median is known"
    assert all(len(t.intermediate_values) < 21 for t in pruned)


def test_a_diverging_run_does_not_end_the_sweep(tmp_path):
    search = {"lr": [0.1], "bad": [True, False]}
    study = join(config(search=search, sampler="grid"), tmp_path, device="cpu")
    assert sorted(t.state.name for t in study.trials) == ["COMPLETE", "PRUNED"]


def test_what_a_killed_process_left_is_tried_again(tmp_path):
    def dying(task, *, lr=0.1):
        os._exit(9)

    child = os.fork()
    if not child:
        OBJECTIVES["toy"] = dying
        join(config(search={"lr": [0.1]}), tmp_path, device="cpu")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    study = join(config(search={"lr": [0.1]}), tmp_path, device="cpu")
    states = sorted(t.state.name for t in study.trials)
    assert states == ["COMPLETE", "FAIL"]


def test_several_processes_share_a_study(tmp_path, monkeypatch):
    met = multiprocessing.get_context("fork").Barrier(2)
    waited = []

    def together(task, *, lr=0.1):
        if not waited:  # its first run: the other process must have one, too
            waited.append(met.wait(300))
        return toy(task, lr=lr)

    monkeypatch.setitem(OBJECTIVES, "toy", together)
    found = config(sampler="random", search={"lr": {"low": 0.01, "high": 0.3}}, trials=8)
    open_study(found, tmp_path)
    children = []
    for _ in range(2):
        child = os.fork()
        if not child:
            code = 1
            try:
                join(found, tmp_path, device="cpu")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0, 0]
    trials = open_study(found, tmp_path).trials
    assert all(t.state.name == "COMPLETE" for t in trials)
    assert 8 <= len(trials) <= 9, "two that start the last run at once may do one too many"
    assert len({t.params["lr"] for t in trials}) == len(trials), "no settings twice"
    assert len({t.user_attrs["process"] for t in trials}) == 2


def test_held_out_images_are_not_trained_on():
    from symmetries.data import load

    train_, held = _split(load("digits"), config(images=50, holdout=0.2))
    assert (len(train_), len(held)) == (40, 10)
    rows = {tuple(image.flatten().tolist()) for image in train_.images}
    assert not rows & {tuple(image.flatten().tolist()) for image in held.images}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "learner"),
        ("[", "a TOML file"),
        ("\x00", "a TOML file"),
        ('learner="toy"\ndata="digits"\nmeasure="x"\n', "search"),
        ('learner="toy"\ndata="digits"\nmeasure="x"\nsurprise=1\n[search]\nlr=[1]', "surprise"),
        ('learner="toy"\ndata="digits"\nmeasure="x"\n[search]\nlr=[]', "search"),
        ('learner="toy"\ndata="digits"\nmeasure="x"\n[search]\nlr={low=2,high=1}', "low"),
        (
            'learner="toy"\ndata="d"\nmeasure="x"\nsampler="grid"\n[search]\nlr={low=1,high=2}',
            "grid",
        ),
        ('learner="toy"\ndata="d"\nmeasure="x"\n[settings]\nlr=1\n[search]\nlr=[1]', "leave one"),
    ],
)
def test_bad_configs_are_named(tmp_path, text, words):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"sweep\.toml: expected") as caught:
        read_config(path)
    assert words in str(caught.value)


def test_missing_config_is_named(tmp_path):
    with pytest.raises(ValueError, match="check the path"):
        read_config(tmp_path / "no.toml")


def test_unknown_settings_are_named(tmp_path):
    with pytest.raises(ValueError, match="a setting of toy: bad, lr, power, steps, got 'rate'"):
        join(config(search={"rate": [1]}), tmp_path)
    with pytest.raises(ValueError, match="measure: expected one of distance, steps"):
        join(config(measure="loss"), tmp_path, device="cpu")
    with pytest.raises(ValueError, match="learner: expected one of"):
        join(config(learner="magic"), tmp_path)


TOY = {"steps": 2, "batch_size": 16, "features": 8, "width": 2, "layers": 1, "kernel_size": 3}


@pytest.mark.parametrize("path", sorted(PAPERS.glob("*/sweep*.toml")), ids=lambda p: p.stem)
def test_the_papers_grids_start(path, tmp_path, monkeypatch):
    """Each as it is but for its size: the first value of every list, two steps, a few digits."""
    small = Recipe(steps=2, batch_size=16)
    networks = {"widths": (8,), "features": (8,), "base": (8,), "conditioner": 8, "samples": 2}
    paper = SymmetryConfig.preset("paper").replace(**networks, inference=small, generative=small)
    monkeypatch.setitem(presets_of(SymmetryConfig), "paper", paper)
    found = read_config(path)
    search = {
        name: [TOY.get(name, values[0])] if isinstance(values, list) else values
        for name, values in found.search.items()
    }
    settings = {name: TOY.get(name, value) for name, value in found.settings.items()}
    size = {"data": "digits", "images": 60, "trials": 1, "search": search, "settings": settings}
    study = join(found.model_copy(update=size), tmp_path, device="cpu")
    (trial,) = study.trials
    assert trial.state.name == "COMPLETE", trial.user_attrs
    assert math.isfinite(trial.value)


SMALL = {
    "penalties": {"steps": 3, "width": 8, "layers": 1},
    "relaxed": {"steps": 3, "width": 2},
    "invariant-weights": {"steps": 3, "features": 8, "samples": 2},
    "symmetry-model": {"group": "rotation", "steps": 3, "widths": (8,), "features": (8,)},
}


@pytest.mark.parametrize("learner", SMALL)
def test_every_learner_gives_finite_numbers(learner):
    from symmetries.data import load

    train_, held = _split(load("digits"), config(images=60))
    found = OBJECTIVES[learner](Task(train_, held, device="cpu"), **SMALL[learner])
    assert found
    assert all(isinstance(value, float) and value == value for value in found.values())


def test_the_command_writes_table_and_plot(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        'learner="toy"\ndata="digits"\nmeasure="distance"\ndirection="minimize"\nimages=20\n'
        'sampler="grid"\n[search]\nlr=[0.001, 0.1]\nsteps=[2, 4]\n'
    )
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["sweep", str(path), "--out", str(out), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    assert "distance" in done.output
    result = SweepResult.load(out / "result" / "sweep.json")
    assert len(result.trials) == 4
    assert result.run.command.startswith("symmetries sweep")
    page = (out / "result" / "report.html").read_text()
    assert page.count("<svg") >= 3
    assert "Sweep of toy on digits" in page


def test_the_seed_of_the_command_is_that_of_the_runs(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        'learner="toy"\ndata="digits"\nmeasure="distance"\ndirection="minimize"\nimages=20\n'
        'sampler="random"\ntrials=2\nseed=3\n[search]\nlr={low=0.001, high=0.1}\n'
    )

    def found(*options):
        out = tmp_path / "-".join(["out", *options])
        words = ["sweep", str(path), "--out", str(out), "--device", "cpu", *options]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        result = SweepResult.load(out / "result" / "sweep.json")
        return result.run, sorted(trial.settings["lr"] for trial in result.trials)

    (own, first), (same, second), (other, third) = (
        found(*options) for options in ([], ["--seed", "3"], ["--seed", "4"])
    )
    assert (own.seed, same.seed, other.seed) == (3, 3, 4)
    assert "--seed 4" in other.command
    assert first == second != third


def test_two_processes_of_one_command_share_its_runs(tmp_path):
    path, out = tmp_path / "sweep.toml", tmp_path / "out"
    path.write_text(
        'learner="relaxed"\ndata="digits"\nmeasure="accuracy"\nimages=60\nsampler="random"\n'
        "trials=6\n[settings]\nsteps=3\nbatch_size=16\nwidth=2\n"
        "[search]\nlr={low=0.001, high=0.1}\n"
    )
    words = ["sweep", str(path), "--out", str(out), "--device", "cpu", "--processes", "2"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "runs by 2 processes" in done.output
    assert len(SweepResult.load(out / "result" / "sweep.json").trials) in (6, 7)


def test_a_process_waits_for_the_others_only_while_there_is_work(tmp_path):
    asked = []

    def ready(joined):
        asked.append(set(joined))
        return len(asked) > 2

    study = join(config(), tmp_path, device="cpu", ready=ready)
    assert len(study.trials) == 3
    assert asked == [{process_name()}] * 3
    join(config(), tmp_path, device="cpu", ready=lambda joined: pytest.fail("nothing to wait for"))
