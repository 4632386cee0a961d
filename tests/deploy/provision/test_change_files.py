"""Several files of a folder change at once, whenever the process is killed."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError
from fedloom.deploy.provision.change_files import CHANGE, change_files, finish_change
from support.kills import kills

OLD = {"a": b"old", "keys/b": b"old", "c.key": b"old"}
NEW = {"a": b"new", "keys/b": b"new", "c.key": b"new", "more/d": b"new"}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def make(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "keys").mkdir(parents=True)
    for name, content in OLD.items():
        (folder / name).write_bytes(content)


def test_a_kill_at_any_step_leaves_all_old_files_or_all_new_ones(tmp_path: Path) -> None:
    folder, seen = tmp_path / "folder", []
    for _ in kills(lambda: change_files(folder, NEW), lambda: make(folder)):
        finish_change(folder)
        found = {name: content for name, content in contents(folder).items() if not name.startswith(".change.part")}
        assert found in (OLD, NEW)
        seen.append(found == NEW)
        change_files(folder, NEW)
        assert contents(folder) == NEW
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


def test_files_that_are_not_right_change_nothing(tmp_path: Path) -> None:
    make(tmp_path / "folder")

    def refuse(draft: Path) -> None:
        assert contents(draft) == NEW
        raise FedloomError("no")

    with pytest.raises(FedloomError, match="no"):
        change_files(tmp_path / "folder", NEW, refuse)
    assert contents(tmp_path / "folder") == OLD


def test_keys_are_their_owners_only(tmp_path: Path) -> None:
    change_files(tmp_path / "new", {"c.key": b"secret", "sub/public": b""})
    assert stat.S_IMODE((tmp_path / "new/c.key").stat().st_mode) == 0o600
    assert contents(tmp_path / "new") == {"c.key": b"secret", "sub/public": b""}


def test_a_change_that_is_a_link_takes_nothing_from_where_it_leads(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.mkdir()
    folder.mkdir()
    (victim / "secret").write_text("theirs")
    (folder / CHANGE).symlink_to(victim)
    with pytest.raises(FedloomError, match="is a link"):
        finish_change(folder)
    assert (victim / "secret").read_text() == "theirs"
    assert not (folder / "secret").exists()
