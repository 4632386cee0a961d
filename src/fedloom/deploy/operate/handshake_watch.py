"""Addresses that begin TLS handshakes and do not end them, counted from nginx's log and said to the operator.

Whoever reaches the port can do that without a certificate, and nginx knows of a connection nothing but its address
until the handshake ends. It gives each up after a few seconds; the counts say whom to keep out.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fedloom.deploy import audit_log
from fedloom.deploy.operate.programs import LogMark
from fedloom.deploy.provision.proxy import ERROR_LOG

EVERY = 10.0
"""Seconds between two looks at the log."""
MANY = 100
"""Handshakes of an address from which on it is named; again at each tenfold number."""
MOST_ADDRESSES = 10_000
"""Addresses that are counted; others count when the server is started again."""
_GIVEN_UP = re.compile(r"client timed out .* while SSL handshaking, client: ([0-9a-fA-F.:]+),")


class HandshakeWatch:
    """Counts the handshakes that nginx gave up, by address, since the server was started.

    Args:
        folder: The server's folder.
        say: Gets a line when an address has many.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say
        self.counts: Counter[str] = Counter()
        self.named: dict[str, int] = {}
        self.mark, self.next = LogMark.at_end_of(folder / ERROR_LOG), 0.0

    def check(self) -> None:
        """Count what is new, and name addresses that have many; does nothing if it was called a moment ago."""
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + EVERY
        lines, self.mark = self.mark.read_on()
        for line in lines:
            found = _GIVEN_UP.search(line)
            if found and (found[1] in self.counts or len(self.counts) < MOST_ADDRESSES):
                self.counts[found[1]] += 1
        for address, count in self.counts.items():
            if count >= self.named.get(address, MANY):
                self.named[address] = 10 * count
                self.say(
                    f"{count:,} connections from {address} began a TLS handshake and did not end it: block that "
                    "address in the firewall if it is not a site's."
                )
                audit_log.append(self.folder, "handshakes given up", address=address, count=count)
