"""The sums that a site has let the server open, on the site's disk: at most one per turn of a round, over all restarts.

Two sums that differ in one site tell what this site sent, whatever the server calls them. So

- of a round and a turn the site sends rows for one model and from one state of its own only: a server that changes a
  bit of the model, or names another state, gets nothing;
- such a turn is opened once, by the same clients and survivors to the same sum. A server that was killed before it had
  saved the round asks for that very sum again;
- one model is opened once, with the same clients, survivors, weights and state of the site, whatever the round, the
  turn or the run is called. Where a method sends no model down, what a site trains is its own: one state of the site is
  opened once then, since the same few bytes come down in every round;
- a site that has kept something does not train as if it had not, but for a turn that it has played so before;
- where a site must decrypt what it is to open in order to check it, it looks a few times per turn only, and never says
  what was wrong: a server could learn a bit by every look.

The rounds of a new run of the same plan are the same rounds: it may repeat what was opened, to the same model. Where
sums have noise, each is paid for out of the site's budget, and the rounds of another run are others.

What a site cannot see is whether the model of the next round is what the server made of the sum before, nor whether
what other sites have kept was made by the same models as its own.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy.site.policy import Refused
from fedloom.deploy.site.request_count import plan_of
from fedloom.files.atomic_write import write_atomic
from fedloom.files.json_text import parse_json
from fedloom.secure.sum_step import Opening, SumSession

FILE = "opened.json"
MOST_LOOKS = 16
"""Enough for a server that was killed again and again; what each look could tell at most is one bit of forty."""
OTHER_PLAN = "a new run of the same plan may only repeat its sums: for other sites or models make a new plan"


@dataclass(frozen=True)
class TurnSum:
    """What the site gave for one turn of a round.

    Args:
        model: The digest of the model that it trained.
        state: The digest of what it had kept before.
        clients: The digest of the clients that were asked and of those in the sum; empty while nothing was opened.
        total: The digest of what else tells this sum from others of the same clients.
        looks: How often the site has looked into what it was to open.
    """

    model: str
    state: str
    clients: str = ""
    total: str = ""
    looks: int = 0

    @property
    def opened(self) -> tuple[str, str, str]:
        """What may be opened once."""
        return self.state, self.clients, self.total


@dataclass
class Openings:
    """What was opened in which turn of which round.

    Args:
        turns: What the site gave, by plan, round and turn.
        by_state: Whether the method sends no model down.
    """

    path: Path
    turns: dict[str, TurnSum]
    by_state: bool = False

    @staticmethod
    def read(folder: Path, trained: bool = False, by_state: bool = False) -> Openings:
        """What a site's folder has; a damaged file is an error, and so is a missing one where the site has trained.

        Args:
            folder: The site's folder.
            trained: Whether the site was asked to train in this plan, so that the file has been there.
            by_state: Whether the method sends no model down.
        """
        path = folder / FILE
        if not path.exists() and trained:
            raise FedloomError(
                f"{path} is missing, although this site has trained in this plan, so it is not known which sums it has "
                "let the server open: restore the newest one, or make a new plan with another seed."
            )
        if not path.exists():
            write_atomic(path, b"{}")
            return Openings(path, {}, by_state)
        try:
            found = {str(place): TurnSum(**one) for place, one in parse_json(path.read_bytes()).items()}
            texts = (text for one in found.values() for key, text in asdict(one).items() if key != "looks")
            if not all(isinstance(text, str) for text in texts):
                raise ValueError("not what was written")
        except (ValueError, TypeError, AttributeError):
            raise FedloomError(
                f"{path} is damaged, so it is not known which sums this site has let the server open: restore it."
            ) from None
        return Openings(path, found, by_state)

    def admit_row(self, session: SumSession, state: bytes, noisy: bool, forgets: bool = False) -> None:
        """Let a row leave, and note what it was made of before it does; one made of something else is refused.

        Args:
            session: What is known of the sum.
            state: The digest of what the site had kept before it trained.
            noisy: Whether the row has noise that the site's budget pays for.
            forgets: Whether the site has kept something, and trained as if it had not.
        """
        place, made = _place(session, noisy), TurnSum(session.message.hex(), state.hex())
        known = self.turns.get(place)
        if known is None and forgets and not noisy:
            raise Refused(
                f"it has kept something of earlier rounds, and round {session.round} asks it to train as if it had not"
            )
        if known is None:
            self._write(place, made)
        elif (known.model, known.state) != (made.model, made.state):
            raise Refused(
                f"in turn {session.turn} of round {session.round} it has trained another model, or from another state "
                f"of its own, and two sums tell too much ({FILE} at the site): {OTHER_PLAN}"
            )

    def admit(self, session: SumSession, opening: Opening, noisy: bool) -> None:
        """Let a sum be opened, and note it before it is; another one of the same round or model is refused.

        Args:
            session: What is known of the sum, for which the site has sent its row.
            opening: What the server learns.
            noisy: Whether the sum has noise that the site's budget pays for.
        """
        place = _place(session, noisy)
        known = self.turns[place]
        clients = _digest(repr(session.ids).encode(), repr(opening.clients).encode())
        opened = replace(known, clients=clients, total=_digest(str(session.most).encode(), opening.total))
        if known.clients and known.opened != opened.opened:
            raise Refused(
                f"it has let a sum of round {session.round} be opened with other sites, or another model, and two of "
                f"them tell too much ({FILE} at the site): ask the same sites again; {OTHER_PLAN}"
            )
        alike = [one for one in self.turns.values() if one.model == known.model and one.clients]
        others = {one.opened for one in alike if not self.by_state or one.state == known.state}
        if not noisy and others - {opened.opened}:
            raise Refused(
                f"it has let a sum of the model of round {session.round} be opened with other sites, weights or state, "
                f"and two of them tell too much ({FILE} at the site): {OTHER_PLAN}"
            )
        if known != opened:
            self._write(place, opened)

    def admit_look(self, session: SumSession, noisy: bool) -> None:
        """Let the site look into what it is to open, and note it before it does; too many looks are refused.

        Args:
            session: What is known of the sum, for which the site has sent its row.
            noisy: Whether the sum has noise that the site's budget pays for.
        """
        place = _place(session, noisy)
        known = self.turns[place]
        if known.looks >= MOST_LOOKS:
            raise Refused(f"it has looked into {MOST_LOOKS} sums of round {session.round}, and looks into no more")
        self._write(place, replace(known, looks=known.looks + 1))

    def _write(self, place: str, what: TurnSum) -> None:
        turns = self.turns | {place: what}
        write_atomic(self.path, json.dumps({key: asdict(one) for key, one in turns.items()}).encode())
        self.turns = turns  # only after the disk has it


def _place(session: SumSession, noisy: bool) -> str:
    """The turn of a round, of one run where noise is paid for, and of all runs of a plan elsewhere."""
    return f"{session.run if noisy else plan_of(session.run)} {session.round}/{session.turn}"


def _digest(*parts: bytes) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()
