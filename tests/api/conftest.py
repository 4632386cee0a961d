"""Fixtures of the tests of Python's calls."""

from __future__ import annotations

import pytest


@pytest.fixture
def without_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons without their page, which takes most of the time of a small one."""
    monkeypatch.setattr("fedloom.api.compare.write_report", lambda *_: None)
