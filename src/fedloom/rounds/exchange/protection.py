"""Under a private mean nothing but means may be used: a reply that no noise protects stops the run."""

from __future__ import annotations

from fedloom.core.errors import FedloomError
from fedloom.core.relays import RELAY
from fedloom.rounds.answers import Answers
from fedloom.rounds.exchange.station import Station
from fedloom.rounds.round_context import RoundContext


class Protection(Station):
    """Refuses replies that their method does not declare as averaged only."""

    back = "refuses a reply that no noise would protect"

    def take_back(self, answers: Answers, round: RoundContext) -> Answers:
        """The same answers."""
        algorithm = round.run.algorithm
        unread = [RELAY] if round.run.hides_models else []  # it goes to the next in a chain, and never into a mean
        strange = [name for name in answers.reply if name not in {*algorithm.sends, *unread}]
        if strange:
            raise FedloomError(
                f"{type(algorithm).__name__.lower()} replies with {strange[0]}, which it does not declare in sends, so "
                "it would leave its clients without protection: declare it, or drop privatemean."
            )
        return answers
