"""``symmetries data describe`` of sets with few classes, and orbits of copies."""

import json

import numpy as np
import pytest

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("labels", "classes", "shown"),
    [
        (None, 0, "labels    none"),
        (np.zeros(6, int), 1, "0      6"),
        (np.full(6, 2), 3, "2      6"),
        (np.array(["eel"] * 6), 1, "eel    6"),
    ],
)
def test_sets_with_few_classes(run, tmp_path, labels, classes, shown):
    more = {} if labels is None else {"labels": labels}
    np.savez(tmp_path / "a.npz", images=RNG.random((6, 8, 8)), **more)
    result = run("data", "describe", "a.npz")
    assert result.exit_code == 0, result.output
    assert shown in result.stdout
    assert json.loads(run("data", "describe", "a.npz", "--json").stdout)["classes"] == classes


@pytest.mark.parametrize("copies", [40, 25])
def test_orbits_of_copies_are_told(run, tmp_path, copies):
    images = RNG.random((40, 8, 8))
    np.save(tmp_path / "a.npy", images)
    assert "copy" not in run("orbit", "a.npy", "--group", "rotation", "--quiet").stderr
    images[:copies] = images[0]
    np.save(tmp_path / "a.npy", images)
    result = run("orbit", "a.npy", "--group", "rotation", "--quiet", "--overwrite")
    assert result.exit_code == 0, result.output
    assert f"warning: images: {copies} of 40 have a copy among them" in result.stderr
