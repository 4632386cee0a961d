"""Who may see the page: nobody who could not read the folder, and no other site's script in a browser.

On loopback the folder's own mode decides: a folder that others of this machine may not read is shown to its owner and
to root only. From other addresses, and to other users, the page needs the token in ``watch.token`` of the server's
folder, over TLS with the server's own certificate. A request must name this machine in its ``Host`` header: a page of
somebody else, whose name is made to lead here (DNS rebinding), cannot.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.web.page_server import is_own_connection

TOKEN = "watch.token"  # noqa: S105


@dataclass(frozen=True)
class Access:
    """The rules for requests to one page.

    Args:
        name: The name of this machine in its certificate; empty if there is none.
        token: What others must know; empty if there is none.
        everybody: Whether every user of this machine may see the page without the token.
        loopback: Whether the page can be reached from this machine only.
    """

    name: str
    token: str
    everybody: bool
    loopback: bool

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


def read_token(folder: Path) -> str:
    """The token of a server's folder, or nothing; a file that others may read is refused."""
    path = folder / TOKEN
    try:
        found = path.lstat()
    except FileNotFoundError:
        return ""
    if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid != os.getuid():
        raise FedloomError(f"{path} must be a file of yours that nobody else may read: chmod 600, or remove it.")
    token = path.read_text(errors="replace").strip()
    if len(token) < 20:
        raise FedloomError(f"{path} holds no token of 20 or more characters: remove it, and a new one is made.")
    return token


def make_token(folder: Path) -> str:
    """The token of a server's folder; a new one if it has none."""
    if not (folder / TOKEN).exists():
        with open(os.open(folder / TOKEN, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24) + "\n")
    return read_token(folder)


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
