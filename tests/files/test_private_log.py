"""A log is its owner's, whatever the umask is, and what it had stays."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fedloom.files.private_log import open_private_log


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("before", [None, 0o666, 0o600])
def test_a_log_is_appended_to_and_has_mode_600(tmp_path: Path, umask: int, before: int | None) -> None:
    log = tmp_path / "it.log"
    if before is not None:
        log.write_text("first\n")
        log.chmod(before)
    usual = os.umask(umask)
    try:
        with open_private_log(log) as file:
            file.write(b"second\n")
    finally:
        os.umask(usual)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert log.read_text() == ("" if before is None else "first\n") + "second\n"
