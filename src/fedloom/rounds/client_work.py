"""What is known of a client's work in a round, whatever its method and wherever it trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ClientWork:
    """The work of one client in one wave of a round, whose reply came back and counts.

    Args:
        round: The round; 0 is what a method does before its first one.
        turn: How often the client was already asked in this round.
        client: The client's number.
        name: The client's name.
        samples: How many training samples it has.
        steps: How many gradient steps it made.
        bytes_sent: How many bytes its reply has, to the server or to the next client; 0 where only a sum of all replies
            leaves the clients.
    """

    round: int
    turn: int
    client: int
    name: str
    samples: int
    steps: int
    bytes_sent: int


Report = Callable[[ClientWork], None]
"""Takes the work of each client in turn, in the process of the server."""


def report_nothing(_: ClientWork) -> None:
    """Nobody wants to know."""
