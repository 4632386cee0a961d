"""A file that cannot be written leaves nothing behind."""

import os
import stat

import pytest

from fedloom.files.atomic_write import write_atomic, write_private


def test_a_path_that_is_a_folder_leaves_no_part_of_a_file(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomic(tmp_path / "taken", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_private_file_is_closed_before_anything_is_in_it(tmp_path, monkeypatch):
    path, seen = tmp_path / "secret", []
    (tmp_path / "secret.part").write_bytes(b"left by a kill")
    (tmp_path / "secret.part").chmod(0o666)
    real = os.fchmod

    def watch(handle, mode):
        real(handle, mode)
        found = os.stat(handle)
        seen.append((stat.S_IMODE(found.st_mode), found.st_size))

    monkeypatch.setattr(os, "fchmod", watch)
    write_private(path, b"a key")
    assert seen == [(0o600, 0)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b"a key"
