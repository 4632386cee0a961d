"""The valid client state of each site, named by the ticket of the request that produced it.

``state`` is the one that the next request builds on, ``base`` the one at the end of the last finished round. Both are
written before the checkpoint, so that a server that is killed at any moment finds the states that belong to its
checkpoint.
"""

from __future__ import annotations

import json
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.files.atomic_write import write_atomic
from fedloom.files.formats import TICKETS
from fedloom.files.json_text import parse_json
from fedloom.files.limits import most_json, read_limited


class Tickets:
    """The tickets in a run's folder."""

    def __init__(self, path: Path, finished: int | None) -> None:
        """Read the tickets as of a finished round.

        Args:
            path: The file of tickets.
            finished: The round of the last checkpoint; None if there is none.
        """
        self.path, self.round = path, -1 if finished is None else finished
        self.state: dict[int, str] = {}
        if finished is not None and path.is_file():
            self.state = self._read(path, finished)
        self.base = dict(self.state)

    @staticmethod
    def _read(path: Path, finished: int) -> dict[int, str]:
        try:
            book = parse_json(read_limited(path, most_json()))
            TICKETS.check(book.get("format", 1), path)
            found = book["state"] if book["round"] <= finished else book["base"]
            return {int(client): str(ticket) for client, ticket in found.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise FedloomError(f"{path} cannot be read: restore it, or start a new run.") from None

    def begin(self, round_number: int) -> None:
        """Begin a round: a new one builds on the last states, a repeated one returns to ``base``."""
        if round_number > self.round:
            self.base = dict(self.state)
        else:
            self.state = dict(self.base)
        self.round = round_number
        self._write()

    def take(self, client: int, ticket: str) -> None:
        """Record that a client's answer was accepted; an empty ticket if the client has no state."""
        if self.state.get(client, "") != ticket:
            self.state[client] = ticket
            self._write()

    def forget(self, client: int) -> None:
        """Record that a client has lost its state."""
        self.state.pop(client, None)
        self.base.pop(client, None)
        self._write()

    def _write(self) -> None:
        book = {"format": TICKETS.version, "round": self.round, "base": self.base, "state": self.state}
        write_atomic(self.path, json.dumps(book).encode())


def refuse_lost_states(path: Path, number: int) -> None:
    """Refuse to go back to a round whose client states the sites do not have any more.

    Sites keep the states of the last two rounds. Further back only runs can go whose clients keep nothing.

    Args:
        path: The file of tickets.
        number: The round after which the run continues.
    """
    try:
        book = parse_json(read_limited(path, most_json()))
        keeps, last = any((*book["state"].values(), *book["base"].values())), int(book["round"])
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FedloomError(f"{path} cannot be read: restore it, or start a new run.") from None
    if keeps and number < last - 1:
        raise FedloomError(
            f"the sites keep their clients' states of round {last - 1} and later, so the run cannot go back to round "
            f"{number}: continue from round {last - 1}, or begin a new run (fedloom deploy run --new)."
        )
