"""The token of a watched deployment: whoever is not the owner of the server's folder needs it to see the page."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from fedloom.core.errors import FedloomError

TOKEN = "watch.token"  # noqa: S105


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
        raise FedloomError(f"{path} does not hold a token of 20 or more characters: remove it, and a new one is made.")
    return token


def make_token(folder: Path) -> str:
    """The token of a server's folder; a new one if it has none."""
    if not (folder / TOKEN).exists():
        with open(os.open(folder / TOKEN, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24) + "\n")
    return read_token(folder)
