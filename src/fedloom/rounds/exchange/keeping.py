"""The end of an exchange: what clients keep is written, and what the exchange cost is noted and reported."""

from __future__ import annotations

from fedloom.rounds.answers import Answers
from fedloom.rounds.exchange.station import Station
from fedloom.rounds.round_context import RoundContext


class Keeping(Station):
    """Writes the state of the clients whose answers count, and adds their costs to those of the round."""

    back = "writes what clients keep, and counts steps and bytes"

    def take_back(self, answers: Answers, round: RoundContext) -> Answers:
        """The same answers."""
        answers.keep()
        answers.report()
        return answers
