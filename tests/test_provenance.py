"""What is stored beside a number."""

from pathlib import Path

import pytest

from symmetries._utils import provenance


def test_commit_of_this_checkout_or_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(provenance, "_CHECKOUT", tmp_path)
    monkeypatch.delenv(provenance.COMMIT_VARIABLE, raising=False)
    assert provenance.commit() is None
    assert provenance.provenance("cpu")["commit"] == "unknown"
    monkeypatch.setenv(provenance.COMMIT_VARIABLE, "0123abcd")
    assert provenance.commit() == "0123abcd"
    (tmp_path / ".git").mkdir()  # damaged: git fails there
    assert provenance.commit() == "0123abcd"


def test_changed_files_are_marked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(provenance, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(provenance, "_git", lambda *words: "abc" if "HEAD" in words else " M x")
    assert provenance.commit() == "abc+"
    monkeypatch.setattr(provenance, "_git", lambda *words: "abc" if "HEAD" in words else "")
    assert provenance.commit() == "abc"


def test_everything_is_named() -> None:
    found = provenance.provenance("cpu")
    assert list(found) == ["command", "commit", "date", "device", "threads", "torch", "python"]
    assert all(found.values())
