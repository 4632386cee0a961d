"""How often Flower's programs and ours look for messages: often while there is work, and less after a while without."""

from __future__ import annotations

import time
from typing import Any

POLL, SLOWEST = 0.1, 1.0
"""Seconds between two polls for messages: the shortest, and the longest, after a time without messages."""
BACKOFF: dict[str, Any] = {"initial_backoff": 0.02, "backoff_cap": 1.0}
"""Seconds before a missing part of a message is requested again: the first time, and at most."""
ARRIVING = 30.0
"""Seconds in which all parts of a message must reach a site. Flower's own limit is two hours; a SuperNode would spend
them waiting for the rest of a message whose server died."""


class PollDelay:
    """Delays between polls that grow while nothing happens, so that an idle deployment costs little."""

    def __init__(self, shortest: float = POLL, longest: float = SLOWEST) -> None:
        self.shortest = self.next = shortest
        self.longest = longest

    def sleep(self) -> None:
        """Sleep a little longer than the last time."""
        time.sleep(self.next)
        self.next = min(self.next * 1.05, self.longest)

    def reset(self) -> None:
        """Return to the shortest delay."""
        self.next = self.shortest
