"""An answer whose transfer breaks off half way is sent again.

Flower stores the parts of a message one by one, in a session that ends when it takes too long or another one replaces
it, and then raises ``ObjectPushError``. Its SuperNode gives the message up; its own client ends the process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

log = logging.getLogger("fedloom")
ATTEMPTS, PAUSE = 5, 0.5
"""How often an answer is sent before it is given up, and the seconds before it is sent for the second time."""


def push_with_retries(push: Callable[[], None]) -> None:
    """Send an answer; again if its transfer broke off."""
    from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

    for attempt in range(ATTEMPTS):
        try:
            return push()
        except ObjectPushError as why:
            if attempt + 1 == ATTEMPTS:
                log.error("the answer could not be sent in %s attempts: %s", ATTEMPTS, why)
                raise
            log.warning("the transfer of the answer broke off: it is sent again (%s)", why)
            time.sleep(PAUSE * 2**attempt)


class RenewedSession:
    """The two calls by which a SuperNode sends an answer; a session that has ended is replaced by a new one.

    Args:
        send: Announces the answer; the parts that are missing, and a session.
        push_object: Sends a part of it in a session.
    """

    def __init__(self, send: Callable[..., tuple[set[str], str]], push_object: Callable[..., None]) -> None:
        self._send, self._push_object = send, push_object
        self._lock = threading.Lock()  # parts are sent side by side
        self._announced: tuple[Any, ...] = ()
        self._session = ""

    def send(self, *announced: Any) -> tuple[set[str], str]:
        """Announce an answer."""
        self._announced = announced
        missing, self._session = self._send(*announced)
        return missing, self._session

    def push_object(self, run: int, _: str, name: str, content: bytes) -> None:
        """Send a part; in a new session if the one it was announced in has ended."""

        def push() -> None:
            from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

            session = self._session
            try:
                self._push_object(run, session, name, content)
            except ObjectPushError:
                with self._lock:
                    if session == self._session:
                        _missing, self._session = self._send(*self._announced)
                raise

        push_with_retries(push)
