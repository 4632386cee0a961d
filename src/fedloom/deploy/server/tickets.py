"""Which kept state of each client counts: by the ticket of the work that made it.

``state`` is what a client builds on next, ``base`` what it had when the last finished round ended. Both are written
before a checkpoint can be, so that a server that is killed at any moment finds the states that its checkpoint means.
"""

from __future__ import annotations

import json
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.runs.checkpoint import write_whole


class Tickets:
    """The book of tickets of a run's folder."""

    def __init__(self, path: Path, finished: int | None) -> None:
        """Open it as it stands after the last checkpoint's round; None where there is no checkpoint yet."""
        self.path, self.round = path, -1 if finished is None else finished
        self.state: dict[int, str] = {}
        if finished is not None and path.is_file():
            self.state = self._of(path, finished)
        self.base = dict(self.state)

    @staticmethod
    def _of(path: Path, finished: int) -> dict[int, str]:
        try:
            book = json.loads(path.read_text())
            found = book["state"] if book["round"] <= finished else book["base"]
            return {int(client): str(ticket) for client, ticket in found.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise FedloomError(f"{path} cannot be read: restore it, or start the run anew.") from None

    def begin(self, round_number: int) -> None:
        """A round begins: for the first time, from where the last one ended, or again, from where it began."""
        if round_number > self.round:
            self.base = dict(self.state)
        else:
            self.state = dict(self.base)
        self.round = round_number
        self._write()

    def take(self, client: int, ticket: str) -> None:
        """A client's work counts."""
        if self.state.get(client, "") != ticket:
            self.state[client] = ticket
            self._write()

    def forget(self, client: int) -> None:
        """A client has lost what it kept."""
        self.state.pop(client, None)
        self.base.pop(client, None)
        self._write()

    def _write(self) -> None:
        write_whole(self.path, json.dumps({"round": self.round, "base": self.base, "state": self.state}).encode())
