"""Output folders: whole or not at all, and nobody's files are lost."""

import errno

import pytest

from symmetries.cli.errors import OutputError
from symmetries.cli.output import output_folder


def fill(out, overwrite=False, text="new"):
    with output_folder(out, overwrite) as partial:
        (partial / "a.json").write_text(text)
        (partial / "model").mkdir()
        (partial / "model" / "weights").write_text(text)


def test_the_folder_appears_when_the_work_is_done(tmp_path):
    out = tmp_path / "deep" / "out"
    with output_folder(out, overwrite=False) as partial:
        (partial / "a.json").write_text("x")
        assert not out.exists()
    assert (out / "a.json").read_text() == "x"
    assert [p.name for p in out.parent.iterdir()] == ["out"]


def test_an_existing_folder_is_refused_before_the_work(tmp_path):
    fill(tmp_path / "out", text="old")
    with pytest.raises(OutputError, match="add --overwrite"):
        fill(tmp_path / "out")
    assert (tmp_path / "out" / "a.json").read_text() == "old"


def test_an_empty_folder_is_not_refused(tmp_path):
    (tmp_path / "out").mkdir()
    fill(tmp_path / "out")
    assert (tmp_path / "out" / "a.json").exists()


def test_overwriting_replaces_its_own_files_and_keeps_others(tmp_path):
    fill(tmp_path / "out", text="old")
    (tmp_path / "out" / "model" / "stale").write_text("old")
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    fill(tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "a.json").read_text() == "new"
    assert [p.name for p in (tmp_path / "out" / "model").iterdir()] == ["weights"]
    assert (tmp_path / "out" / "thesis.tex").read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing_behind(tmp_path, error):
    def fail():
        with output_folder(tmp_path / "out", overwrite=False) as partial:
            (partial / "a.json").write_text("half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_says_so_and_leaves_nothing_behind(tmp_path):
    def fail():
        with output_folder(tmp_path / "out", overwrite=False) as partial:
            raise OSError(errno.ENOSPC, "No space left on device", str(partial / "a.json"))

    with pytest.raises(OutputError, match="No space left on device; free some space"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_an_error_about_the_input_stays_one(tmp_path):
    def fail():
        with output_folder(tmp_path / "out", overwrite=False):
            raise FileNotFoundError(errno.ENOENT, "No such file", "/data/mnist")

    with pytest.raises(FileNotFoundError, match="mnist"):
        fail()


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "out").write_text("file")
    with pytest.raises(OutputError, match="in the way"):
        fill(tmp_path / "out", overwrite=True)
    with pytest.raises(OutputError, match="choose an --out"):
        fill(tmp_path / "out" / "below")
    assert (tmp_path / "out").read_text() == "file"
