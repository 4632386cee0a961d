"""Silence: a client whose update a step of the channel withholds sends one flag and nothing else.

To the server it is a client that did not answer, but for the flag, its steps and its measurements. What it kept stays
as it was before the round, as if it had not taken part (``rounds/silent_clients.py``). If too few clients send for the
round's aggregator, the model stays as it is.
"""

from __future__ import annotations

from fedloom.rounds.answers import Answers
from fedloom.rounds.exchange.station import Station
from fedloom.rounds.round_context import RoundContext


class NothingSent(Exception):  # noqa: N818
    """Too few clients of a wave sent their update, so that the model stays as it is."""


class Silence(Station):
    """Takes clients who sent nothing out of the exchange. They are not to blame, and their work has its costs."""

    back = "takes out clients that withheld their update"

    def take_back(self, answers: Answers, round: RoundContext) -> Answers:
        """The answers of the clients who sent something; ``NothingSent`` if they are too few."""
        places = silent_places(answers)
        if not places:
            return answers
        quiet, loud = answers.split(places)
        quiet.keep()  # their work has its costs, and the step that withheld their update remembers it
        if len(loud.wave.ids) < max(1, round.run.aggregator.least_clients) and not answers.wave.optional:
            raise NothingSent
        return loud


def silent_places(answers: Answers) -> list[int]:
    """The places in the wave of the clients that sent nothing but their flag."""
    flags = [(job, answer.silent) for job, answer in answers.cohorts if answer.silent is not None]
    return sorted(place for job, silent in flags for place, flag in zip(job.places, silent, strict=True) if flag)
