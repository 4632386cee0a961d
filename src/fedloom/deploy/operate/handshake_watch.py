"""Addresses with connections that nginx gave up or refused, counted from its log and said to the operator.

Whoever reaches the port can begin TLS handshakes without a certificate, and until a handshake ends nginx knows nothing
but the address. With its stream module nginx refuses what an address opens beyond its limit; without that module it
gives each handshake up after a few seconds. The counts say whom to keep out.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fedloom.deploy import audit_log
from fedloom.deploy.operate.programs import LogMark
from fedloom.deploy.provision.address_limit import ZONE
from fedloom.deploy.provision.proxy import ERROR_LOG

EVERY = 10.0
"""Seconds between two looks at the log."""
MANY = 100
"""Connections of an address from which on it is named; again at each tenfold number."""
MOST_ADDRESSES = 10_000
"""Addresses that are counted; others count when the server is started again."""
_GIVEN_UP = re.compile(r"client timed out .* while SSL handshaking, client: ([0-9a-fA-F.:]+),")
_REFUSED = re.compile(rf'limiting connections by zone "{ZONE}".*, client: ([0-9a-fA-F.:]+),')


class HandshakeWatch:
    """Counts the connections that nginx gave up or refused, by address, since the server was started.

    Args:
        folder: The server's folder.
        say: Gets a line when an address has many.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say
        self.given_up: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.named: dict[tuple[str, str], int] = {}
        self.mark, self.next = LogMark.at_end_of(folder / ERROR_LOG), 0.0

    def check(self) -> None:
        """Count what is new, and name addresses that have many; does nothing if it was called a moment ago."""
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + EVERY
        lines, self.mark = self.mark.read_on()
        for line in lines:
            for pattern, counts in ((_GIVEN_UP, self.given_up), (_REFUSED, self.refused)):
                found = pattern.search(line)
                if found and (found[1] in counts or len(counts) < MOST_ADDRESSES):
                    counts[found[1]] += 1
        self._name("handshakes given up", self.given_up, "began a TLS handshake and did not end it")
        self._name("connections refused", self.refused, "were refused, since it has too many at once")

    def _name(self, event: audit_log.What, counts: Counter[str], what: str) -> None:
        for address, count in counts.items():
            if count >= self.named.get((event, address), MANY):
                self.named[event, address] = 10 * count
                self.say(
                    f"{count:,} connections from {address} {what}: block that address in the firewall if it is not a "
                    "site's."
                )
                audit_log.append(self.folder, event, address=address, count=count)
