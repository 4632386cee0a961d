"""Signatures and answers by the server's clock, so that a site whose clock is off can take part.

Flower's SuperLink accepts a call whose signed time is less than 5 seconds ahead of its own clock and less than 305
behind. Here a SuperNode learns the difference from the ``Date`` of the server's answers, also of a refusal, and signs
with the server's time. An answer's times are those of the request, which the server wrote, so an answer does not expire
early or late. What is left to a site's clock are the dates of certificates, which are days wide.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

BEARABLE = timedelta(seconds=2)
"""A smaller difference is left alone; ``Date`` has whole seconds."""


BACKOFF = (0.0, 0.5, 1.0, 2.0)
"""Seconds before a call is signed again after each refusal that showed another time; then the refusal counts."""


class ServerClock:
    """The server's time, as far as its answers told it.

    Args:
        here: This machine's time.
    """

    def __init__(self, here: Any) -> None:
        self.here = here
        self.ahead = timedelta(0)
        """How far this machine is ahead of the server."""

    def now(self) -> datetime:
        """The server's time."""
        moment: datetime = self.here()
        return moment - self.ahead

    def learn(self, response: Any) -> None:
        """Take the server's time from the ``Date`` of one of its answers."""
        try:
            date = parsedate_to_datetime(str(response.headers.get("date")))
        except (TypeError, ValueError):
            return
        ahead = self.here() - date - timedelta(seconds=0.5)
        if abs(ahead - self.ahead) > BEARABLE:
            self.ahead = ahead

    def retry(self, call: Callable[[], Any], refused: type[Exception]) -> Any:
        """Make a signed call; again after a refusal that taught the server's time, since it was signed with another.

        A server whose time is another in each answer is not followed for ever: after all of ``BACKOFF`` it counts.

        Args:
            call: Makes the call.
            refused: The error of a call that the server refuses.
        """
        for wait in BACKOFF:
            ahead = self.ahead
            try:
                return call()
            except refused:
                if self.ahead == ahead:
                    raise
                time.sleep(wait)
        return call()


def request_time(message: Any) -> datetime:
    """When the server sent a message, by its own clock."""
    return datetime.fromtimestamp(message.metadata.created_at, UTC)
