"""The user's own list of code that runs were started with."""

from pathlib import Path

import pytest

from fedloom.registry.started_code import is_remembered, list_path, remember_code


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def test_a_file_is_known_by_its_place_and_its_digest() -> None:
    assert not is_remembered("/a.py", "1")
    remember_code({"/a.py": "1", "with\na line": "2"})
    remember_code({"/a.py": "1"})
    assert is_remembered("/a.py", "1")
    assert is_remembered("with\na line", "2")
    assert not is_remembered("/a.py", "2")
    assert not is_remembered("/b.py", "1")
    assert len(list_path().read_text().splitlines()) == 2


def test_nobody_else_can_read_or_write_the_list() -> None:
    remember_code({"/a.py": "1"})
    assert list_path().stat().st_mode & 0o777 == 0o600
    assert list_path().parent.stat().st_mode & 0o777 == 0o700


def test_the_list_is_in_the_user_s_home_unless_she_says_otherwise(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(home))
    assert list_path() == home / ".local" / "state" / "fedloom" / "started_code.jsonl"


def test_a_list_that_cannot_be_written_is_said(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    (home / "state").write_text("a file")
    remember_code({"/a.py": "1"})
    assert "so fedloom resume will ask for --trust" in caplog.text
    assert not is_remembered("/a.py", "1")


def test_a_damaged_list_knows_nothing_of_what_it_lost() -> None:
    remember_code({"/a.py": "1"})
    list_path().write_bytes(b"\xff\xfe" + list_path().read_bytes())
    assert not is_remembered("/a.py", "1")


def test_a_user_without_a_home_is_told_and_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    remember_code({"/a.py": "1"})
    assert "no home folder" in caplog.text
    assert not is_remembered("/a.py", "1")
