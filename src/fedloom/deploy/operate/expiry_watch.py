"""Certificates that will expire, on a participant's own screen: weeks before, while it runs, and when it is so far.

A site whose certificate has expired ends with the reason: its server would refuse it at the next connection. A server
continues, since it takes renewed certificates while it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy.participant_folder import role_of
from fedloom.deploy.provision.certificates import check_certificates, days_left, expiry_warnings

EVERY = 10.0
"""Seconds between two looks at the certificates."""


class ExpiryWatch:
    """Warns of each certificate of a folder once per day, and ends a site whose own certificate has expired."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say
        self.warned: dict[str, int] = {}
        self.next = 0.0
        self.ends = role_of(folder) == "site"
        self.check()

    def check(self) -> None:
        """Warn, or raise an error with the reason; does nothing if it was called a moment ago."""
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + EVERY
        if self.ends:
            check_certificates(self.folder)
        try:
            days, warnings = days_left(self.folder), expiry_warnings(self.folder)
        except FedloomError:  # a file that is just being copied here: it is read again at the next look
            return
        for name, warning in warnings.items():
            if self.warned.get(name) != days[name]:
                self.warned[name] = days[name]
                self.say(warning)
