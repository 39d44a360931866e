"""What is shown and stored: no password, nothing that a terminal obeys, and the right exit code."""

import json

import numpy as np
import pytest
from PIL import Image

from symmetries._utils.text import masked

SWEEP = """
learner = "relaxed"
data = "digits"
measure = "accuracy"
images = 40
trials = 1
[settings]
steps = 1
width = 2
[search]
lr = [1e-3]
"""


def test_a_password_is_masked_in_results_and_errors(run, tmp_path):
    (tmp_path / "a.toml").write_text(SWEEP)
    refused = run("sweep", "a.toml", "--storage", "nothing://ann:s3cret@host/db", "--out", "no")
    assert refused.exit_code != 0
    assert "s3cret" not in refused.output
    name = "file:study?mode=memory&token=s3cret&uri=true"
    done = run("sweep", "a.toml", "--storage", f"sqlite:///{name}", "--out", "out")
    assert done.exit_code == 0, done.output
    for file in ("sweep.json", "report.html"):
        text = (tmp_path / "out" / "result" / file).read_text()
        assert "s3cret" not in text
        assert "token=***" in text


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:s3 cret@host/db",
        "mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BUID%3Dsa%3BPWD%3Ds3cret%3BA%3Db",
        "mssql+pyodbc:///?odbc_connect=DRIVER=x;UID=sa;PWD=s3cret;A=b",
        "host=h user=ann password=s3cret dbname=x",
    ],
)
def test_passwords_of_any_spelling_are_masked(address):
    assert "cret" not in masked(address)
    assert masked(address).count("***") == 1


@pytest.mark.parametrize("address", ["ann:s3cret@host", "mssql+pyodbc:///?odbc_connect=D={x}"])
def test_an_address_that_is_none_is_refused_in_our_words(run, tmp_path, address):
    (tmp_path / "a.toml").write_text(SWEEP)
    refused = run("sweep", "a.toml", "--storage", address)
    assert refused.exit_code == 3, refused.output
    assert "storage: expected" in refused.output
    assert "s3cret" not in refused.output


@pytest.fixture
def escaping(tmp_path):
    """Pictures whose names, and one of whose classes, would change a terminal."""
    rng = np.random.default_rng(0)
    for kind in ("a", "\x1b]0;title\x07b"):
        folder = tmp_path / "p" / kind
        folder.mkdir(parents=True)
        for i in range(3):
            Image.fromarray(rng.integers(0, 255, (8, 8), np.uint8)).save(folder / f"{i}.png")
    (tmp_path / "p" / "a" / "\x1b[31mred.png").write_bytes(b"no picture")
    return "p"


def test_names_do_not_reach_the_terminal_as_they_are(run, tmp_path, escaping):
    for words in (
        ["data", "describe", escaping, "--skip-bad"],
        ["data", "describe", escaping],
        ["data", "describe", "\x1b[31mnothing"],
        ["orbit", escaping, "--skip-bad", "--group", "rotation", "--out", "\x1b[31mout"],
        ["data", "describe", "digits", "--\x1b[31m"],
    ):
        said = run(*words).output
        assert "\x1b" not in said
        assert "\x07" not in said
        assert "\\x1b" in said


def test_json_in_letters_that_the_output_can_take(spawn_fresh, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "a.npz",
        images=rng.random((12, 8, 8)),
        labels=np.arange(12) % 2,
        class_names=np.array(["grün", "日本"]),
    )
    words = ["orbit", "a.npz", "--group", "rotation", "--json", "--out", "out"]
    process = spawn_fresh(*words, env={"PYTHONIOENCODING": "ascii"})
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert json.loads(out)["data"]["classes"] == ["grün", "日本"]


WORDS = [
    ["data", "describe", "digits", "--json"],
    ["data", "describe", "digits"],
    ["data", "list"],
    ["--help"],
    ["audit", "--help"],
    ["data", "-h"],
    ["--version"],
    [],
]


@pytest.mark.parametrize("words", WORDS)
def test_a_full_standard_output(spawn, words):
    with open("/dev/full", "w") as full:
        process = spawn(*words, stdout=full)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 4, said
    assert said.startswith("error: standard output: No space left on device")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("words", WORDS)
def test_a_standard_output_that_takes_nothing(spawn, words):
    closed = "import os, sys; os.close(1); sys.stdout = None\n"
    code = closed + "from symmetries.cli import app; app()"
    process = spawn(*words, code=code)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 4, said
    assert "standard output: it is closed" in said


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["data", "describe", "digits", "--resize", "999999999999"], 3),
        (["data", "describe", "digits", "--resize", "9" * 5000], 3),
        (["orbit", "digits", "--group", "c" + "9" * 5000, "--out", "out"], 3),
        (["orbit", "digits", "--group", "c99999999", "--out", "out"], 3),
        (["audit", "x:y", "digits", "--group", "d99999999", "--out", "out"], 3),
        (["data", "describe", "x" * 300], 3),
        (["audit", "x" * 300, "digits", "--out", "out"], 3),
        (["augment", "x" * 300, "digits", "--out", "out.npz"], 3),
        (["orbit", "digits", "--group", "rotation", "--out", "x" * 250], 4),
        (["orbit", "digits", "--group", "rotation", "--out", "x" * 300], 4),
        (["orbit", "digits", "--group", "rotation", "--out", "/"], 4),
    ],
)
def test_exit_codes_of_what_is_too_long(run, words, code):
    result = run(*words)
    assert result.exit_code == code, result.output
    for foreign in ("please report", "Exceeds the limit", "Errno"):
        assert foreign not in result.stderr
    assert len(result.stderr) < 2500


@pytest.mark.parametrize("out", [".", ".."])
def test_the_working_folder_is_no_output(run, out):
    result = run("orbit", "digits", "--group", "rotation", "--out", out, "--quiet")
    assert result.exit_code == 4
    assert "the working folder" in result.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("orbit", "a.npz", "--out", "x/" * 2000 + "y"), 4),
        (("orbit", "a.npz", "--out", "n" * 300 + "/y"), 4),
        (("audit", "n" * 300, "a.npz"), 3),
        (("data", "describe", "x/" * 3000), 3),
    ],
)
def test_paths_of_any_length_end_in_one_short_line(run, tmp_path, words, code):
    np.savez(tmp_path / "a.npz", images=np.random.default_rng(0).random((20, 8, 8)))
    done = run(*words)
    assert done.exit_code == code
    assert "Errno" not in done.output
    assert "report this" not in done.output
    assert len(done.output) < 1000


def test_colons_in_names_stay_what_they_are(run):
    """Rich shows a sign in place of :b:, unless it is told not to."""
    assert "'a:b:c'" in run("data", "describe", "a:b:c").output
    assert "'a:b:c'" in run("audit", "a:b:c", "digits").output
