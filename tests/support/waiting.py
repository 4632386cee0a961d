"""Waiting for a condition. The limit only ends a hang: no test is right or wrong because of how long something took."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT = 240.0
"""Seconds; below the limit of a test (pyproject.toml), so that the claim says what did not come."""


def wait_until(true: Callable[[], object], what: str = "") -> None:
    """Wait for a condition.

    Args:
        true: The condition.
        what: What is said if it never holds.
    """
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end, what or "it has not come true"
        time.sleep(0.01)
