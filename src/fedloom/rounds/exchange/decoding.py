"""The server's end of the channel: what its steps encoded at the clients is undone here."""

from __future__ import annotations

from dataclasses import replace

from fedloom.rounds.answers import Answers
from fedloom.rounds.exchange.station import Station
from fedloom.rounds.round_context import RoundContext


class Decoding(Station):
    """Undoes the steps of the channel, in reverse order."""

    back = "undoes the steps of the channel"

    def take_back(self, answers: Answers, round: RoundContext) -> Answers:
        """The answers as if they had been sent without a channel, but for what its steps lost."""
        return replace(answers, decoded=round.run.channel.decode(answers.reply, answers.wave.message))
