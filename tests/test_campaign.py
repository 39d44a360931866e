"""A small sample of the campaign (`make campaign` runs all of it), and its page."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symmetries.cli import app

ROOT = Path(__file__).parents[1]
CAMPAIGN = ROOT / "campaign"
sys.path.insert(0, str(CAMPAIGN))

import page  # noqa: E402
import readers  # noqa: E402
import seeds  # noqa: E402


@pytest.fixture
def run(run_script, tmp_path):
    """Run a part of the campaign in a process of its own; its numbers, or what it printed."""

    def start(part, *options):
        out = run_script(CAMPAIGN / f"{part}.py", *options, CAMPAIGN_RESULTS=str(tmp_path))
        path = tmp_path / f"{part}.json"
        return json.loads(path.read_text()) if path.exists() else out

    return start


def test_killed_learners_go_on_bit_for_bit(run):
    names = ["symmetry model", "invariant weights, natural gradients"]
    found = run("kills", "--kills", "2", "--learners", *names)
    assert found["every_operation"]["whole"] == found["every_operation"]["places"] > 15
    for name in names:
        counts = found["learners"][name]
        assert counts["kills"] >= 2
        assert counts["identical"] == counts["runs"] > 0


def test_damage_is_found_and_the_file_named(run):
    found = run("corruptions", "--each", "12")
    assert len(found["files"]) == 9
    assert all(row["found"] == row["made"] == 12 for row in found["files"].values())


def test_commands_with_two_processes_find_what_one_finds(run):
    names = ["discover", "fit --method invariant", "augment"]
    found = run("ddp", "--learners", "--commands", *names)["commands"]
    assert {name: row["same"] for name, row in found.items()} == dict.fromkeys(names, True)


def test_full_disks_and_locked_folders(run):
    found = run("faults")["faults"]
    locks = found.pop("two runs into one folder")
    assert locks == {"second_run_refused": True, "stale_lock_blocks_nothing": True}
    assert {name: (f["clear_error"], f["same_weights"]) for name, f in found.items()} == {
        "full disk": (True, True),
        "read-only folder": (True, True),
        "removed folder": (True, True),
    }
    assert found["full disk"]["checkpoint_after_step"] == 6


def test_hostile_files_run_nothing_and_deceive_nobody(run):
    found = run("hostile", "--each", "6", "--formats", "onnx", "npz", "tables", "pictures", "json")
    for row in found["formats"].values():
        assert row["files"] > 6
        assert row["ran code"] == row["crashed"] == row["differs"] == row["over_memory"] == 0, row


def test_killed_and_paired_commands_leave_whole_outputs(run):
    found = run(
        "outputs",
        "--most",
        "2",
        "--pairs",
        "1",
        "--commands",
        "augment",
        "orbit",
        "watch",
    )
    assert found["pairs"]["losses"] == 0
    for row in found["commands"].values():
        assert row["changes"] > row["kills"] == 2
        assert row["mixed"] == row["failed"] == row["left over"] == 0, row
    for row in found["resumed"].values():
        assert row["kills"] == row["same"] == 2, row
    for row in found["phases"].values():
        assert row["pairs"] == 2
        assert row["losses"] == 0


def test_every_command_that_writes_is_killed():
    """Scripts of papers, which reproduce runs, write each file in one step."""
    text = (CAMPAIGN / "output_runs.py").read_text()
    (table,) = re.findall(r"^COMMANDS[^{]*(\{.*?^\})", text, re.DOTALL | re.MULTILINE)
    killed = {name.split()[0] for name in ast.literal_eval(table)}
    known = {command.callback.__name__ for command in app.registered_commands} | {"data"}
    assert killed == known - {"reproduce"}
    for script in (ROOT / "papers").glob("*/*.py"):
        assert ".write_text(json" not in script.read_text(), f"{script}: a kill leaves half of it"


def test_bad_input_breaks_no_entry_point(run):
    names = ["data.load", "data.from_array", "data.stream", "training.TrainConfig"]
    names += ["auditing.logit_invariance", "groups.parse_group", "data.rotated"]
    names += ["nn.tied.TiedLinear", "nn.invariant_linear.InvariantLinear", "nn.gconv.GroupConv2d"]
    names += ["learners.relaxed.accuracy", "learners.penalties.regularised_loss"]
    names += ["training.Step", "training.train_together", "estimators.image_size"]
    said = run("inputs", "--sample", "12", "--entries", *names)
    last = said.splitlines()[-1]
    assert last.startswith(f"{len(names)} entry points")
    assert "broken" not in last
    assert "native" not in last, "refused in the words of others"


@pytest.fixture(scope="module")
def seed_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    seeds.write(folder)
    return {name: sorted((folder / name).iterdir()) for name in readers.TARGETS}


@pytest.mark.parametrize("name", sorted(readers.TARGETS))
def test_readers_take_their_seeds(name, seed_files):
    for path in seed_files[name]:
        readers.run(readers.TARGETS[name])(path.read_bytes())


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.parametrize("name", sorted(readers.TARGETS))
@given(data=st.data())
def test_readers_give_a_value_or_a_message(name, seed_files, data):
    """Any bytes, and valid files with some bytes changed."""
    content = bytearray(data.draw(st.sampled_from(seed_files[name])).read_bytes())
    if data.draw(st.booleans()):
        content = bytearray(data.draw(st.binary(max_size=400)))
    for _ in range(data.draw(st.integers(0, 6)) if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    readers.run(readers.TARGETS[name])(bytes(content))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("idx", b"\0\0\x08\x03" + b"\xff" * 12),
        ("idx", b"\0\0\x08\x04" + (2**15).to_bytes(4, "big") * 4),  # 2^60 images of one pixel
        ("npy", b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', 'fortran_order': False, "),
        ("safetensors", (2**60).to_bytes(8, "little") + b"{}"),
    ],
)
def test_headers_that_claim_too_much_are_refused(name, content):
    if name == "npy":
        head = "{'descr': '|u1', 'fortran_order': False, 'shape': (1152921504606846976, 1, 1), }"
        head = head.ljust(117) + "\n"
        content = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode()
    with pytest.raises(ValueError, match=r"claim|not a safetensors"):
        readers.TARGETS[name](content)


def test_the_page_shows_the_stored_numbers():
    path = ROOT / "docs" / "reliability.md"
    assert page.filled(path.read_text()) == path.read_text(), "run: python campaign/page.py"


def test_nothing_was_lost_in_the_stored_campaign():
    """The claims of the page, read off the numbers themselves."""
    kills = page.read("kills")
    assert sum(row["kills"] for row in kills["learners"].values()) >= 100
    assert all(row["identical"] == row["runs"] for row in kills["learners"].values())
    files = page.read("corruptions")["files"].values()
    assert sum(row["made"] for row in files) >= 1000
    assert all(row["found"] == row["made"] for row in files)
    fuzz = page.read("fuzz")["readers"].values()
    assert sum(row["seconds"] for row in fuzz) >= 3600
    assert all(row.get("again", row)["findings"] == 0 for row in fuzz)
    assert page.read("soak")["minutes"] >= 60
    for row in page.read("hostile")["formats"].values():
        assert row["files"] >= 500
        assert row["ran code"] == row["crashed"] == row["differs"] == row["over_memory"] == 0
    outputs = page.read("outputs")
    assert outputs["pairs"]["losses"] == 0
    assert sum(row["kills"] for row in outputs["commands"].values()) >= 200
    paired = sum(row["pairs"] for row in outputs["phases"].values())
    assert paired + outputs["pairs"]["pairs"] >= 100
    assert all(row["mixed"] == 0 for row in outputs["commands"].values())
    assert all(row["same"] == row["kills"] for row in outputs["resumed"].values())
    assert all(row["losses"] == 0 for row in outputs["phases"].values())
    bad = page.read("inputs")["total"]
    assert bad["cells"] == bad["ok"] + bad["refused"], "others' words, or worse"
    ddp = page.read("ddp")
    for row in (*ddp["learners"].values(), *ddp["commands"].values()):
        assert row["same"] or row["batch_norm"]
    assert all(case["same"] for case in page.read("slurm")["cases"].values())
    assert all(case["same"] for case in page.read("elastic")["cases"].values())
