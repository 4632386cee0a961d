"""The sums that a site has let the server open, on the site's disk: of one round at most one, over all restarts.

A server that plays a round twice with other sites could subtract one sum from the other. So a round is opened again
only as it was: the same clients, the same model, the same survivors. That is what a server does that was killed before
it had saved the round. The same model in the same round of another run counts as the same round.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy.site.policy import Refused
from fedloom.files.atomic_write import write_atomic
from fedloom.files.json_text import parse_json
from fedloom.secure.sum_step import SumSession

FILE = "opened.json"


@dataclass
class Openings:
    """What was opened in which round.

    Args:
        opened: The digest of what was opened, by a round of a run and by a round and the model that it began with.
    """

    path: Path
    opened: dict[str, str]

    @staticmethod
    def read(folder: Path) -> Openings:
        """What a site's folder has; a damaged file is an error.

        Args:
            folder: The site's folder.
        """
        path = folder / FILE
        if not path.exists():
            return Openings(path, {})
        try:
            return Openings(path, {str(place): str(what) for place, what in parse_json(path.read_bytes()).items()})
        except (ValueError, TypeError, AttributeError):
            raise FedloomError(
                f"{path} is damaged, so it is not known which sums this site has let the server open: restore it."
            ) from None

    def admit(self, session: SumSession, opening: bytes) -> None:
        """Let a sum be opened, and note it before it is; another one of the same round is refused.

        Args:
            session: What is known of the sum.
            opening: What the server learns.
        """
        what = _digest(repr(session.ids).encode(), str(session.most).encode(), session.message, opening)
        turn = f"{session.round}/{session.turn}"
        places = (f"run {session.run} {turn}", f"model {session.message.hex()} {turn}")
        if any(self.opened.get(place, what) != what for place in places):
            raise Refused(
                f"it has let a sum of round {session.round} be opened with other sites, or another model, and two of "
                f"them tell too much: bring those sites back ({FILE} at the site says what was opened)"
            )
        if any(place not in self.opened for place in places):
            self.opened |= dict.fromkeys(places, what)
            write_atomic(self.path, json.dumps(self.opened).encode())


def _digest(*parts: bytes) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()
