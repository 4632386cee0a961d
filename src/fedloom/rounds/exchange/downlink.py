"""What goes down is coded here: rounded, as a difference to what clients have, or cut to the sub-models they train."""

from __future__ import annotations

from dataclasses import replace

from fedloom.channel.model_differences import note_references
from fedloom.core.message import Wave
from fedloom.core.model.sub_models import SubModelDraw
from fedloom.rounds.answers import Answers
from fedloom.rounds.exchange.station import Ask, Station
from fedloom.rounds.round_context import RoundContext


class DownlinkCoding(Station):
    """Codes models on their way down, and notes who has which afterwards."""

    out = "codes the model that goes down, or cuts it to a sub-model"
    back = "notes which clients now have the model"

    def __call__(self, wave: Wave, round: RoundContext, ask: Ask) -> Answers:
        """The answers to a wave whose message goes down in another form."""
        draw = SubModelDraw(round.run.setting.seed, round.number, wave.turn, wave.ids)
        outgoing = round.run.down_channel.outgoing(wave.message, draw, round.costs.down)
        # From here on the message is what clients make of it: they start from that, not from what the server had.
        answers = ask(replace(wave, message=outgoing.view, forms=outgoing.parts))
        # Only whose answer counts surely has the model: of all others it is not known what they have.
        round.costs.down = note_references(outgoing, answers.wave.ids)
        return answers
