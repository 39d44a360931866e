"""Results: JSON in, JSON out, and what is not ours is refused with a reason."""

import json
import math
import random

import pytest
from pydantic import ValidationError

from symmetries.results import DataSummary, OrbitCurve, OrbitResult, RunInfo


def make_result(**changes):
    fields = {
        "group": ("rotation",),
        "data": DataSummary(name="set", count=3, channels=1, height=8, width=8, classes=("a", "b")),
        "neighbour_distance": 0.25,
        "transformations": (
            OrbitCurve(
                name="rotation",
                unit="degrees",
                values=(-180.0, 0.0, 180.0),
                change=(0.5, 0.0, 0.5),
                change_low=(0.4, 0.0, 0.4),
                change_high=(0.6, 0.0, 0.6),
                reach=(-90.0, 90.0),
            ),
        ),
        "run": RunInfo(
            command="symmetries orbit set",
            seed=0,
            device="cpu",
            time=1.5,
            created="2026-01-01 00:00 UTC",
            versions={"symmetries": "0.1.0"},
        ),
    }
    return OrbitResult(**{**fields, **changes})


def test_a_saved_result_loads_as_the_same(tmp_path):
    result = make_result()
    path = result.save(tmp_path / "orbit.json")
    assert OrbitResult.load(path) == result
    assert [p.name for p in tmp_path.iterdir()] == ["orbit.json"]


def test_the_schema_is_the_first_field(tmp_path):
    content = json.loads(make_result().save(tmp_path / "orbit.json").read_text())
    assert next(iter(content.items())) == ("schema", "symmetries.orbit/1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "symmetries.orbit/2"}, "expected schema 'symmetries.orbit/1'"),
        ({"schema": None}, "expected schema"),
        ({"neighbour_distance": "far"}, "'neighbour_distance'"),
        ({"neighbour_distance": -1.0}, "'neighbour_distance'"),
        ({"surprise": 1}, "'surprise'"),
        ({"data": {"name": "set"}}, "'data.count'"),
    ],
)
def test_a_foreign_file_is_refused_by_field(tmp_path, change, message):
    path = make_result().save(tmp_path / "orbit.json")
    content = {**json.loads(path.read_text()), **change}
    del content["sha256"]  # as --json prints it
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        OrbitResult.load(path)


def test_what_json_printed_loads_too(tmp_path):
    result = make_result()
    path = tmp_path / "orbit.json"
    path.write_text(result.model_dump_json(indent=2) + "\n")
    assert OrbitResult.load(path) == result


def test_any_changed_byte_is_found(tmp_path):
    path = make_result().save(tmp_path / "orbit.json")
    content = path.read_bytes()
    generator = random.Random(0)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] = generator.choice([byte for byte in range(256) if byte != content[place]])
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"orbit\.json"):
            OrbitResult.load(path)
    path.write_bytes(content)
    assert OrbitResult.load(path) == make_result()


def test_deep_or_huge_json_is_refused_with_words(tmp_path):
    path = tmp_path / "orbit.json"
    for text in ("[" * 100_000, '{"schema": "symmetries.orbit/1", "x": ' + "9" * 5000 + "}"):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"orbit\.json: expected JSON"):
            OrbitResult.load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe\x00", b"null"])
def test_a_file_that_is_not_a_result_is_refused(tmp_path, content):
    path = tmp_path / "orbit.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"orbit\.json: expected"):
        OrbitResult.load(path)


def test_nan_does_not_enter_a_result():
    with pytest.raises(ValidationError, match="finite"):
        make_result(neighbour_distance=math.nan)


def test_a_result_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        make_result().neighbour_distance = 1.0


def test_a_failed_save_leaves_nothing_behind(tmp_path):
    (tmp_path / "orbit.json").mkdir()
    with pytest.raises(OSError, match=r"orbit\.json"):
        make_result().save(tmp_path / "orbit.json")
    assert [p.name for p in tmp_path.iterdir()] == ["orbit.json"]
