"""Training of an orbit posterior ends when its answer has settled, and resumes to the same bits."""

import pytest
import torch

from symmetries.learners.orbit_posterior import (
    Network,
    OrbitConfig,
    OrbitPosterior,
    Reading,
    Training,
    Views,
    fitting,
    rounds,
)
from symmetries.learners.orbit_posterior import model as model_module
from symmetries.training.resume import stored_threads

PICTURES = torch.rand(90, 1, 12, 12, generator=torch.Generator().manual_seed(0))


def tiny(**training):
    return OrbitConfig(
        bins=24,
        folds=2,
        check=False,
        network=Network(kind="mlp", features=16),
        training=Training(**{"steps": 10, "batch_size": 16, **training}),
        reading=Reading(pictures=64, resamples=20, samples=32),
        views=Views(readings=2),
    )


def rounds_of(monkeypatch, losses, widths, **training):
    """The lengths of the rounds of a fit whose rounds have these losses and widths."""
    lengths = []

    def fit_round(model, network, kept, held, recipe, run, name, seed, best):
        lengths.append(recipe.steps)
        return fitting.History(), {"all": losses[len(lengths) - 1]}, set()

    monkeypatch.setattr(fitting, "fit_round", fit_round)
    monkeypatch.setattr(fitting, "held_out_widths", lambda *_: widths[len(lengths) - 1])
    model = OrbitPosterior("rotation", (1, 12, 12), tiny(**training))
    fit = fitting.Fit(model, model.fits[0], 0, PICTURES, {}, "fold0")
    fit.finish()
    return lengths


def test_training_ends_when_widths_and_likelihood_have_settled(monkeypatch):
    steady = rounds_of(monkeypatch, [-1.0, -1.005], [(1.0, 2.0), (1.01, 1.99)], rounds=5)
    assert steady == [10, 10]


def test_each_further_round_is_as_long_as_all_before_it(monkeypatch):
    widths = [(1.0,), (0.8,), (0.7,), (0.69,), (0.69,)]
    losses = [-1.0, -1.005, -1.006, -1.007, -1.008]
    assert rounds_of(monkeypatch, losses, widths, rounds=6) == [10, 10, 20, 40]
    rising = [-1.0, -1.09, -1.18, -1.27]
    assert rounds_of(monkeypatch, rising, [(1.0,)] * 4, rounds=3) == [10, 10, 20]


def test_one_round_more_where_the_last_one_brought_much(monkeypatch):
    rising = [-1.0, -1.2, -1.4, -1.6, -1.8]
    assert rounds_of(monkeypatch, rising, [(1.0,)] * 5, rounds=3) == [10, 10, 20, 40]
    slower = [-1.0, -1.2, -1.4, -1.42]
    assert rounds_of(monkeypatch, slower, [(1.0,)] * 4, rounds=3) == [10, 10, 20, 40]
    assert rounds_of(monkeypatch, rising, [()] * 5, rounds=1) == [10]


def test_one_coordinate_that_still_changes_is_enough_to_go_on(monkeypatch):
    widths = [(1.0, 1.0), (1.0, 0.9), (1.0, 0.89)]
    assert len(rounds_of(monkeypatch, [-1.0] * 3, widths, rounds=9)) == 3


@pytest.mark.parametrize("group", ["rotation", "shift_x,shift_y"])
def test_held_out_widths_are_those_of_the_coordinates(group):
    model = OrbitPosterior(group, (1, 12, 12), tiny())
    widths = fitting.held_out_widths(model, model.fits[0], PICTURES[:20])
    uniform = [0.9 * c.span for c in model.chart.coordinates]
    assert len(widths) == len(uniform)
    for width, most in zip(widths, uniform, strict=True):
        assert 0.7 * most < width < 1.2 * most  # a new network knows nothing


def test_a_resumed_fit_keeps_the_number_of_threads(monkeypatch, tmp_path):
    config = tiny(rounds=2)
    model = OrbitPosterior("rotation", (1, 12, 12), config)
    model.fit(PICTURES, device="cpu", progress=False, out=tmp_path)
    number = model.threads
    assert stored_threads(tmp_path) == number
    monkeypatch.setattr(model_module, "threads_of_a_fit", lambda: number + 1)
    assert model.threads == number + 1  # a new fit would take what the cores allow
    again = OrbitPosterior("rotation", (1, 12, 12), config)
    again.fit(PICTURES, device="cpu", progress=False, out=tmp_path, resume=True)
    assert again.threads == number
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])


@pytest.mark.parametrize("count", [70, 90, 150])
def test_few_pictures_are_shared_evenly_by_processes(monkeypatch, count):
    class Seen(Exception):
        pass

    def train(network, loss, data, config, on_step):
        raise Seen(config.batch_size)

    monkeypatch.setattr(rounds, "train", train)
    model = OrbitPosterior("rotation", (1, 12, 12), tiny(batch_size=512))
    pictures = torch.rand(count, 1, 12, 12)
    with pytest.raises(Seen) as seen:
        fitting.Fit(model, model.fits[0], 0, pictures, {}, "fold0").round()
    (batch,) = seen.value.args
    assert batch % 16 == 0
    assert batch <= max(16, count // 2)


def test_views_made_for_several_steps_teach_as_much(monkeypatch):
    """What a GPU does, on a CPU: the same fit but for its random numbers."""

    def gain(several):
        model = OrbitPosterior("flip_x", (1, 12, 12), tiny(steps=200))
        if several:
            monkeypatch.setattr(rounds, "device_of", lambda run: torch.device("cuda"))
        halves = torch.cat((torch.full((90, 1, 12, 6), 0.2), torch.full((90, 1, 12, 6), 0.8)), 3)
        pictures = (halves + 0.1 * PICTURES).clamp(0, 1)
        kept, held = pictures[:70], pictures[70:]
        recipe = model.config.training
        run = {"device": "cpu", "progress": False}
        found = rounds.fit_round(model, model.fits[0], kept, held, recipe, run, "", 0)
        return -found[1]["all"]

    assert gain(several=False) > 0.6  # of log 2 = 0.69
    assert gain(several=True) > 0.6


def test_parts_of_a_network_end_with_the_best_weights_of_each(monkeypatch):
    """Shifts of few pictures are overfitted while turns are still learned."""
    model = OrbitPosterior("rotation,translation", (1, 16, 16), tiny(steps=20))
    blob = torch.zeros(80, 1, 16, 16)
    blob[:, :, 5:9, 4:11] = 0.5 + 0.5 * torch.rand(
        80, 1, 4, 7, generator=torch.Generator().manual_seed(0)
    )
    small = model.prepared(blob)
    network = model.fits[0]
    parts = network.parts
    assert {name: wanted for name, (_, wanted) in parts.items()} == {"turns": [0], "lines": [1, 2]}
    names = set(network.state_dict())
    owned = [{n for n in names if n.startswith(weights)} for weights, _ in parts.values()]
    assert owned[0] | owned[1] == names
    assert not owned[0] & owned[1]

    states = []

    class Watched(rounds.BestWeights):
        def look(self, device):
            states.append({k: v.clone() for k, v in self.model.state_dict().items()})
            turns = self.folder is None and self.weights[0] == "whitening."
            return -float(len(states)) if turns else float(len(states))

    monkeypatch.setattr(rounds, "BestWeights", Watched)
    recipe, run = model.config.training, {"device": "cpu", "progress": False}
    _, losses, early = rounds.fit_round(
        model, network, small[:60], small[60:], recipe, run, "", 0, {"turns": 0.0, "lines": 9.0}
    )
    assert early == {"lines"}  # best at the first look, turns at the last one
    assert losses["lines"] == 2.0
    now = network.state_dict()
    for name in owned[0]:
        assert torch.equal(now[name], states[-1][name])
    for name in owned[1]:
        assert torch.equal(now[name], states[1][name])
