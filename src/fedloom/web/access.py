"""Who may see a page: nobody who could not read what it is about, and no other site's script in a browser.

On loopback it is shown to the user who serves it and to root, and to everybody of this machine if all may read what it
is about. Others need a token. A request must name this machine in its ``Host`` header: a page of somebody else, whose
name is made to lead here (DNS rebinding), cannot.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from dataclasses import dataclass

from fedloom.web.connection_owner import is_own_connection


@dataclass(frozen=True)
class Access:
    """The rules for requests to one page.

    Args:
        name: The name of this machine in its certificate; empty if there is none.
        token: What others must know; empty if there is none.
        everybody: Whether every user of this machine may see the page without the token.
        loopback: Whether the page can be reached from this machine only.
    """

    name: str = ""
    token: str = ""
    everybody: bool = False
    loopback: bool = True

    def is_host(self, header: str) -> bool:
        """Whether a ``Host`` header names this machine: by an address, as localhost, or by its own name."""
        host = header.strip().casefold()
        host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        return bool(host) and (_is_address(host) or host in ("localhost", self.name.casefold()))

    def admits(self, authorization: str, client: tuple[str, int], server: tuple[str, int]) -> bool:
        """Whether a request may be answered.

        Args:
            authorization: Its ``Authorization`` header: ``Bearer TOKEN``, or ``Basic`` with the token as password.
            client: The address and port that it comes from.
            server: The address and port that it came to.
        """
        if self.loopback and (self.everybody or is_own_connection(client, server)):
            return True
        return bool(self.token) and hmac.compare_digest(_credential(authorization).encode(), self.token.encode())


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _credential(authorization: str) -> str:
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.casefold() == "bearer":
        return value.strip()
    if scheme.casefold() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return ""
    return ""
