"""The line of stations between the two halves of a method, and an exchange along it.

A run has only the stations that it uses; ``fedloom run --explain`` shows them. The same line serves a simulation and a
deployment: only what asks the clients, the engine, differs.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedloom.core.message import Replies, Wave
from fedloom.rounds.answers import Answers
from fedloom.rounds.composition import Composition
from fedloom.rounds.exchange.adversary import Collusion, HostileServer
from fedloom.rounds.exchange.asking import Asking, asking_of
from fedloom.rounds.exchange.budget import PrivacyBudget
from fedloom.rounds.exchange.chain_loss import ChainLoss
from fedloom.rounds.exchange.decoding import Decoding
from fedloom.rounds.exchange.downlink import DownlinkCoding
from fedloom.rounds.exchange.finiteness import Finiteness, Forgetting
from fedloom.rounds.exchange.keeping import Keeping
from fedloom.rounds.exchange.protection import Protection
from fedloom.rounds.exchange.screening import ReplyScreening
from fedloom.rounds.exchange.silence import Silence
from fedloom.rounds.exchange.station import Station
from fedloom.rounds.round_context import RoundContext


def line_of(run: Composition) -> tuple[Station, ...]:
    """The stations of a run, from the server's to the one next to its clients.

    A wave passes them in this order on its way out, and in the reverse order on its way back.

    Args:
        run: What the run is made of.
    """
    rows = run.sums is None  # a sum hides single replies, so no station can judge them
    # Under a private mean a reply may change nothing but its own part of the sum. A screen compares clients, and naming
    # those who are left out tells who was drawn: so nobody is left out, and what is unusable counts as zero.
    judged = rows and run.privacy is None
    # What one client hands to another unread can be neither screened nor decoded: that client has undone the steps.
    read = not run.hides_models
    hostile = run.hostile
    stations: list[Station | None] = [
        # Outermost: an attacking server sees what the method's server will see, after every other station.
        HostileServer(hostile) if hostile is not None and hostile.attack.server_is_hostile else None,
        # Outside Keeping: who has the new model is noted only when it is certain whose answer counts.
        DownlinkCoding() if run.codes_models else None,
        # Outside all that leaves clients out: whoever does not count must keep nothing new.
        Keeping(),
        # Inside Keeping, outside all that leaves clients out: whose chain is lost is known when it is known who counts.
        ChainLoss() if run.hides_models else None,
        # Inside Keeping: a method that would leave its clients unprotected must not have anything kept.
        Protection() if run.privacy is not None else None,
        # Outside Collusion: a screen is there for hostile replies, so it judges what hostile clients agreed on.
        ReplyScreening(run.screen) if judged and read else None,
        # Outside Decoding: hostile clients act on what the server decodes, an upper bound of what they can do.
        Collusion(hostile) if rows and hostile is not None and hostile.attack.clients_collude else None,
        # Outside Finiteness: a step that packs bits cannot decode what is not a number.
        Decoding() if rows and read and run.channel.steps else None,
        # Outside Silence: a silent client has no reply that could be looked at.
        Finiteness() if judged else None,
        # In its place: a client that diverged counts as zero, and keeps what it had.
        Forgetting() if run.privacy is not None else None,
        # Outside PrivacyBudget: also a client that withholds its update has used its samples.
        Silence() if rows and any(step.may_be_silent for step in run.steps) else None,
        # Next to the clients: what arrived has left them, whatever the other stations make of it.
        PrivacyBudget() if run.client_privacy else None,
    ]
    return tuple(station for station in stations if station is not None)


def exchange(round: RoundContext, wave: Wave, line: Sequence[Station], asking: Asking) -> Replies:
    """Send a wave along a line of stations to its clients, and return their replies as the method gets them.

    Args:
        wave: What the method's server sends, and to whom.
        line: The stations, the outermost first.
        asking: How the clients are asked.
    """

    def pass_on(wave: Wave, place: int) -> Answers:
        if place == len(line):
            return asking(wave, round)
        return line[place](wave, round, lambda wave: pass_on(wave, place + 1))

    return pass_on(wave, 0).replies()


def describe_line(run: Composition) -> list[tuple[str, str, str]]:
    """The name of each station of a run, the way of asking last, and what it does on the way out and on the way back.

    Args:
        run: What the run is made of.
    """
    along: list[Station | Asking] = [*line_of(run), asking_of(run)]
    return [(type(one).__name__, one.out, one.back) for one in along]
