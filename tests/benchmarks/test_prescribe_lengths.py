"""How long trials must be: what short and long ones choose, and the gains that they tell."""

from benchmarks.prescribe import lengths
from benchmarks.prescribe.cell import Cell, Setting

NARROW, BARE = lengths.NARROW, lengths.ADDED[0]
WIDE = lengths.BASES[5]
# Accuracies and log-likelihoods of trials of 800, 1,600 and 3,200 steps and of all labels.
SCORES = (
    ({}, (0.80, -0.7), (0.80, -0.9), (0.80, -1.0), 0.82),
    (NARROW, (0.79, -0.6), (0.84, -0.5), (0.86, -0.4), 0.86),
    (WIDE, (0.70, -0.9), (0.80, -0.6), (0.82, -0.3), 0.84),
    (BARE, (0.81, -0.5), (0.83, -0.6), (0.85, -0.2), 0.85),
)
ROWS = [
    {"data": "d", "spread": 0.0, "labels": 10, "policy": policy, "final": [final, 0.0]}
    | dict(zip(lengths.LENGTHS, map(list, trials), strict=True))
    for policy, *trials, final in SCORES
]


def test_what_trials_choose_and_the_gains_that_they_tell():
    """The wide motion is best after 3,200 steps, and nothing was tried on top of it."""
    lines = [line.strip("| ").split(" | ") for line in lengths.shown(ROWS).splitlines()[2:]]
    assert [line[1] for line in lines] == ["800", "1600", "3200"]
    assert [line[2].split()[1] for line in lines] == ["10", "10", "180"]
    assert "mix" not in lines[0][2]
    assert "mix 1" in lines[1][2]
    assert [line[3:] for line in lines] == [
        ["1.0", "-3.3", "3.0", "6.3", "2 of 3"],
        ["0.0", "2.3", "3.0", "0.7", "0 of 3"],
        ["2.0", "4.3", "3.0", "1.3", "0 of 3"],
    ]


def test_a_policy_is_scored_by_trials_and_by_a_training_on_all_labels(monkeypatch):
    seen = []
    own = lengths.train
    monkeypatch.setattr(lengths, "LENGTHS", {"2": lengths.Size(2, 8, 3)})
    monkeypatch.setattr(lengths, "train", lambda trials: seen.extend(trials) or own(trials))
    monkeypatch.setattr(lengths, "LAST", lengths.Size(3, 8, 1))
    how = Setting(development=True, source=600, test=50)
    row = lengths.compute(Cell("digits", 0.0, 60, 10), how, {"rotation": 10.0})
    assert [(len(trial.images), trial.size.steps) for trial in seen] == [(40, 2), (60, 3)]
    assert all(0 <= row[name][0] <= 1 > row[name][1] for name in ("2", "final"))
