"""The adversary's two places in an exchange: at the server, around all others, and among its clients.

What hostile clients do alone, to their data and their own replies, happens where the clients are
(``rounds/client_runtime.py``), before any step of the channel.
"""

from __future__ import annotations

from dataclasses import replace

from fedloom.core.message import Wave
from fedloom.rounds.answers import Answers
from fedloom.rounds.exchange.station import Station
from fedloom.rounds.hostile_clients import HostileClients
from fedloom.rounds.round_context import RoundContext


class HostileServer(Station):
    """A server that sends something other than the method does, and looks at what it gets."""

    out = "an attacking server changes the message"
    back = "an attacking server looks at what it got"

    def __init__(self, hostile: HostileClients) -> None:
        self.hostile = hostile

    def send_out(self, wave: Wave, round: RoundContext) -> Wave:
        """The wave as the server sends it."""
        return self.hostile.poison_wave(wave, round.server)

    def take_back(self, answers: Answers, round: RoundContext) -> Answers:
        """The same answers; what was found in them is recorded. A sum shows nothing of single clients."""
        if not answers.summed:
            round.costs.findings |= self.hostile.findings(answers.wave, answers.replies())
        return answers


class Collusion(Station):
    """Hostile clients who agree on what they send."""

    back = "hostile clients agree on their replies"

    def __init__(self, hostile: HostileClients) -> None:
        self.hostile = hostile

    def take_back(self, answers: Answers, round: RoundContext) -> Answers:
        """The answers with what hostile clients agreed on; those of others keep their bytes."""
        agreed = self.hostile.collude(round.run.algorithm, answers.wave, answers.reply, round.number)
        return replace(answers, decoded=agreed)
