"""An answer whose transfer breaks off half way is sent again, for as long as somebody waits for it.

Flower stores the parts of a message one by one, in a session that ends when it takes too long or another one replaces
it, and then raises ``ObjectPushError``. Its SuperNode gives the message up; its own client ends the process. A part of
an answer that nobody waits for any more is refused in the same way: announcing the answer again tells which it is.
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


class NoLongerAsked(Exception):  # noqa: N818
    """The request of an answer has expired, or was answered: the answer is not taken any more."""


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
        self._missing: set[str] = set()
        self._session = ""

    def send(self, *announced: Any) -> tuple[set[str], str]:
        """Announce an answer."""
        self._announced = announced
        self._missing, self._session = self._send(*announced)
        if not self._missing:  # Flower's SuperNode says that it was sent
            log.warning("the server takes no part of this answer: its request has expired, or was answered before")
        return self._missing, self._session

    def push_object(self, run: int, _: str, name: str, content: bytes) -> None:
        """Send a part; in a new session if the one it was announced in has ended.

        Raises:
            NoLongerAsked: The server does not wait for the answer any more.
        """

        def push() -> None:
            from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

            session = self._session
            if name not in self._missing:
                raise NoLongerAsked("nobody waits for this answer any more: it is discarded")
            try:
                self._push_object(run, session, name, content)
            except ObjectPushError:
                with self._lock:
                    if session == self._session:
                        self._missing, self._session = self._send(*self._announced)
                raise

        push_with_retries(push)
