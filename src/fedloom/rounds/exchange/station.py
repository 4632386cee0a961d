"""A station on the way of a wave: one concern, in one file, that no other station knows of.

Stations are wrapped around each other like layers, and asking the clients is in the middle. A station gets the wave on
its way out, hands it on with ``ask``, and gets the answers on their way back; what it needs of the way out for the way
back is a local variable. ``line.py`` has the order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from fedloom.core.message import Wave
from fedloom.rounds.answers import Answers
from fedloom.rounds.round_context import RoundContext

Ask = Callable[[Wave], Answers]
"""Hands a wave to the next station, and at last to the clients."""


class Station:
    """A station that changes nothing; subclasses override ``send_out``, ``take_back``, or ``__call__`` for both."""

    out: ClassVar[str] = ""
    """What it does with a wave on its way out, in a few words; empty if nothing."""
    back: ClassVar[str] = ""
    """What it does with the answers on their way back."""

    def __call__(self, wave: Wave, round: RoundContext, ask: Ask) -> Answers:
        """The answers to a wave.

        Args:
            wave: The wave, as the station before this one left it.
            ask: Asks the clients, through all stations behind this one.
        """
        return self.take_back(ask(self.send_out(wave, round)), round)

    def send_out(self, wave: Wave, round: RoundContext) -> Wave:
        """The wave as the next station gets it."""
        return wave

    def take_back(self, answers: Answers, round: RoundContext) -> Answers:
        """The answers as the station before this one gets them."""
        return answers
