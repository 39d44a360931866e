"""Commands: what they write, what they say, and how they fail."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from rich.text import Text
from typer.main import get_command

import symmetries
from symmetries.cli import app
from symmetries.results import OrbitResult


def test_version(run):
    assert run("--version").output == f"symmetries {symmetries.__version__}\n"


def test_the_command_is_installed():
    found = subprocess.run(
        [sys.executable, "-c", "import sys; from symmetries.cli import app; app(['--version'])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith("symmetries ")


def test_the_package_runs_as_the_command():
    found = subprocess.run(
        [sys.executable, "-m", "symmetries", "--help"], capture_output=True, text=True, check=True
    )
    assert "Usage: python -m symmetries" in found.stdout
    assert "discover" in found.stdout


@pytest.mark.parametrize(
    "command", [["discover"], ["orbit"], ["data", "list"], ["data", "describe"], ["data", "fetch"]]
)
def test_every_command_has_help_with_an_example(run, command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Example: symmetries " + " ".join(command) in result.output


COMMANDS = ("discover", "fit", "audit", "augment", "orbit", "generators", "sweep", "reproduce")
COMMANDS += ("prescribe", "wrap")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_the_text_of_every_option(command):
    """Square brackets are markup for rich, which showed nothing of what stood in them."""
    for option in get_command(app).commands[command].params:
        assert option.help, option.name
        assert Text.from_markup(option.help).plain == option.help


def test_help_documents_the_exit_codes(run):
    assert "4 output could not be written" in " ".join(run("--help").output.split())


def test_orbit_writes_the_numbers_and_the_page(run, tmp_path):
    result = run("orbit", "digits", "--group", "rotation", "--out", "out")
    assert result.exit_code == 0
    assert "wrote out/report.html" in result.output
    assert "rotation" in result.output
    numbers = OrbitResult.load(tmp_path / "out" / "orbit.json")
    assert numbers.group == ("rotation",)
    assert numbers.data.count == 1437
    low, high = numbers.transformations[0].reach
    assert -30 < low < 0 < high < 30
    assert "Orbits of digits" in (tmp_path / "out" / "report.html").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


def test_orbit_of_a_colour_file_without_labels(run, tmp_path):
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 255, (5, 12, 20, 3), dtype=np.uint8)
    np.savez(tmp_path / "mine.npz", images=pictures)
    result = run("orbit", "mine.npz", "--group", "shift_x,hue", "--quiet", "--json")
    assert result.exit_code == 0
    numbers = json.loads(result.stdout)
    assert [t["name"] for t in numbers["transformations"]] == ["shift_x", "hue"]
    assert numbers["data"]["width"] == 20
    assert (tmp_path / "out" / "orbit-mine" / "report.html").exists()


def test_orbit_is_the_same_for_the_same_seed(run, tmp_path):
    for out in ("a", "b"):
        run("orbit", "digits", "--group", "rotation", "--seed", 3, "--out", out)
    first, second = (OrbitResult.load(tmp_path / out / "orbit.json") for out in ("a", "b"))
    assert first.transformations == second.transformations


def test_data_list_names_the_sets(run):
    output = run("data", "list").output
    assert "digits" in output
    assert "mnist-rotated" in output


def test_data_list_as_json(run):
    assert "digits" in json.loads(run("data", "list", "--json").output)


def test_data_describe_reads_as_the_other_commands_do(run, tmp_path):
    from PIL import Image

    for name, side in (("a", 8), ("b", 10)):
        Image.new("L", (side, side), 9).save(tmp_path / f"{name}.png")
    assert "--resize" in run("data", "describe", ".").stderr
    assert json.loads(run("data", "describe", ".", "--resize", "8", "--json").output)["count"] == 2


def test_data_describe(run):
    output = run("data", "describe", "digits").output
    assert "1,437" in output
    facts = json.loads(run("data", "describe", "digits", "--json").output)
    assert (facts["height"], facts["classes"]) == (8, 10)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["orbit", "digit"], 3, "did you mean digits"),
        (["orbit", "digits", "--group", "spin"], 3, "group: expected"),
        (["orbit", "digits", "--group", "c4"], 3, "group: expected continuous parameters"),
        (["orbit", "digits", "--device", "abacus"], 3, "device: expected"),
        (["orbit", "digits", "--group", "hue"], 3, "channel"),
        (["orbit", "mnist", "--folder", "."], 3, "symmetries data fetch mnist"),
        (["orbit", "digits", "--seed", "x"], 2, "--seed"),
        (["orbit"], 2, "Missing argument"),
        (["data", "fetch", "nope"], 3, "expected one of 'cifar10'"),
        (["spin"], 2, "No such command"),
    ],
)
def test_errors_are_one_line_with_a_remedy_and_a_code(run, tmp_path, arguments, code, message):
    result = run(*arguments)
    assert result.exit_code == code
    assert message in result.stderr
    assert "Traceback" not in result.output
    if code == 3:
        assert len(result.stderr.splitlines()) <= 2  # the bar may have its own line
    assert not list(tmp_path.glob("out/*"))
    assert not list(tmp_path.glob("out/.*"))


def test_an_existing_folder_is_refused_and_overwritten_when_told(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "orbit.json").write_text("old")
    arguments = ["orbit", "digits", "--group", "rotation", "--out", "out"]
    assert run(*arguments).exit_code == 4
    assert (tmp_path / "out" / "orbit.json").read_text() == "old"
    assert run(*arguments, "--overwrite").exit_code == 0
    assert OrbitResult.load(tmp_path / "out" / "orbit.json").data.name == "digits"


def test_an_interrupt_leaves_nothing_behind(run, tmp_path, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("symmetries.analysis.orbits.study_orbits", interrupt)
    result = run("orbit", "digits", "--out", "out")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_unexpected_error_says_how_to_report_it(run, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("wheel fell off\nand rolled away [red]")

    monkeypatch.setattr("symmetries.analysis.orbits.study_orbits", fail)
    result = run("orbit", "digits")
    assert result.exit_code == 1
    assert "RuntimeError: wheel fell off and rolled away [red]; please report" in result.stderr
    shown = run("--debug", "orbit", "digits")
    assert isinstance(shown.exception, RuntimeError)


def test_a_termination_stops_like_an_interrupt(run, tmp_path, monkeypatch):
    import os
    import signal

    def stop(*arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("symmetries.analysis.orbits.study_orbits", stop)
    result = run("orbit", "digits", "--out", "out")
    assert result.exit_code == 130
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("ignored", [False, True])
def test_sigterm_means_ctrl_c_also_in_the_background(ignored):
    from symmetries.cli.errors import terminated_like_interrupted

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), terminated_like_interrupted():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
