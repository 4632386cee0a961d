"""A file that cannot be written leaves nothing behind."""

import pytest

from fedloom.runs.folder.atomic_write import write_atomic


def test_a_path_that_is_a_folder_leaves_no_part_of_a_file(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomic(tmp_path / "taken", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
