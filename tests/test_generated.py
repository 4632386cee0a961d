"""Files that are generated from the code are current."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.generated import FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_generated_file_is_current(path: Path) -> None:
    assert path.read_text() == FILES[path](), f"{path.name} is not what the code says: run make generated"
