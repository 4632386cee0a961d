"""Chains that are lost: where clients encrypt for each other, nobody can take the place of one that does not answer."""

from __future__ import annotations

from fedloom.core.algorithm import handover_of
from fedloom.core.message import Wave
from fedloom.rounds.answers import Answers
from fedloom.rounds.exchange.station import Ask, Station
from fedloom.rounds.round_context import RoundContext

LOST = "chain lost"
"""The word of a record for it."""


class ChainLoss(Station):
    """Names the chains that end in a round before their last member."""

    back = "names the encrypted chains that are lost, since a member did not hand its model on"

    def __call__(self, wave: Wave, round: RoundContext, ask: Ask) -> Answers:
        """The same answers."""
        answers = ask(wave)
        algorithm, names, there = round.run.algorithm, round.run.task.federation, set(answers.wave.ids)
        for client in (client for client in wave.ids if client not in there):
            place = handover_of(algorithm, client, round.number, wave.turn, round.run.setting.seed)
            if place is not None:
                why = f"chain {place.chain} does not count in this round: no model came from {names.name(client)}"
                before = "" if place.previous is None else ", and what members before it trained stays unread"
                round.engine.remark(client, names.name(client), LOST, why + before)
        return answers
