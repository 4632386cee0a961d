"""The base class of callbacks: what a run says of itself while it works.

A callback looks on: it may log, draw, copy files and stop the run, and it changes nothing else. It gets copies, and is
called in the process that started the run, whatever the engine; so a run has the same bytes with it and without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedloom.rounds.client_work import ClientWork
from fedloom.runs.results.history import History


class Callback:
    """Something that is called while a run works; a subclass has those of these methods that it needs.

    Each of them may raise ``fl.StopRun("why")``. The round that is being played is then played to its end and saved,
    the run ends, ``history.stopped`` says why, and ``fl.resume`` continues it to the same bytes as without the stop.
    Any other error ends the run as an error does anywhere.

    Every run of a comparison has its own shallow copy of the callback: what belongs to one run is set up in
    ``run_begins``, and what all runs share (a list, a connection) is made in the constructor.
    """

    def run_begins(self, history: History) -> None:
        """The run begins, or continues.

        Args:
            history: A copy of what is known: the config, and the records until now if it continues.
        """

    def round_begins(self, number: int) -> None:
        """A round begins, before its clients are selected. What was to be saved of the rounds before is saved.

        Args:
            number: The round, from 1.
        """

    def client_trained(self, work: ClientWork) -> None:
        """A client's reply came back and counts. It is called client by client, in the order of the wave.

        It is not called where nobody may learn who takes part (a private mean whose clients are drawn in secret). A
        round that too few clients answered is tried again, and so are these calls.

        Args:
            work: The round, the client and what is known of its work.
        """

    def round_ends(self, record: dict[str, Any]) -> None:
        """A round has ended and was measured; it is not saved yet.

        A run that continues calls this for the rounds before the stop too, so that a callback that remembers what it
        saw knows all of it.

        Args:
            record: A copy of the round's record, as in ``history.records``; 0 is the state before the first round.
        """

    def run_ends(self, history: History) -> None:
        """The run has ended: with its last round, because it diverged, or because a callback stopped it.

        Args:
            history: What ``fl.run`` will return.
        """

    def close(self) -> None:
        """Nothing more will come. This is called once, also after an error and after Ctrl-C."""


Observer = Callback | Callable[[dict[str, Any]], None]
"""Who looks on: a callback, or a function, which is a callback that has ``round_ends`` only."""
