"""What the output of a participant's program says about why it ended, in words for people."""

from __future__ import annotations

CONNECTION_ERRORS = {
    "certificate has expired": "a certificate has expired: ask the operator for a renewed one.",
    "certificate is not yet valid": "a certificate is not valid yet: set this machine's clock.",
    "certificate is not valid for": "the server's certificate is for another address: check `server` in site.toml.",
    "CERTIFICATE_VERIFY_FAILED": "the server's certificate is not from this site's authority (ca.crt): get a folder of "
    "this deployment from its operator.",
    "Invalid SuperNode authentication": "the server does not know this site's key, or this machine's clock is off: ask "
    "the operator.",
    "No SuperNode found": "the server does not know this site's key: the operator must register it.",
    "code: 2004": "the server does not know this site's key, or another machine uses it now: ask the operator.",
    "400 Bad Request": "the server did not accept this site's certificate: get a folder of this deployment from its "
    "operator.",
    "WRONG_VERSION_NUMBER": "the server does not use TLS: check `server` in site.toml.",
    "TLSV1_ALERT": "the server did not accept this site's certificate: get a folder of this deployment from its "
    "operator.",
    "Connection refused": "the connection was refused: check `server` in site.toml, and whether the server is running.",
    "Name or service not known": "no machine has that name: check `server` in site.toml.",
    "incompatible": "server and site have different versions of Flower: install the same on both.",
}
"""Parts of Flower's output, and their meaning."""


def connection_error(output: str) -> str:
    """Why a SuperNode cannot connect, from its output."""
    return next((meaning for sign, meaning in CONNECTION_ERRORS.items() if sign in output), last_line(output))


def last_line(output: str) -> str:
    """The last line of a program's output that is not empty."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"
