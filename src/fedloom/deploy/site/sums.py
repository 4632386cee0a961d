"""The site's half of sums: it lives in the site's memory from the first phase of a sum to its last.

A site that was restarted in between has forgotten it and drops out of this sum; of two sums of one round only the later
one continues, and only if none was opened: two sums that differ in one site would tell what this site sent.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.wire import RejectedMessage
from fedloom.deploy.site.openings import Openings
from fedloom.secure.sum_step import ROWS, ClientHalf, SumKeys, SumSession, SumStep


class SiteSums:
    """The site's half of the sum that is being made.

    Args:
        step: How sums are hidden.
        openings: The sums that the site has let the server open.
    """

    def __init__(self, step: SumStep, client: int, keys: SumKeys, openings: Openings) -> None:
        self.step, self.client, self.keys, self.openings = step, client, keys, openings
        self.session: SumSession | None = None
        self.half: ClientHalf | None = None
        self.admitted: SumSession | None = None

    def admit_row(self, session: SumSession, phase: str, state: bytes, forgets: bool) -> None:
        """Refuse an update before the site trains: whether training succeeds, and how long it takes, tells something.

        Args:
            session: What the server says of the sum.
            state: The digest of what the site has kept.
            forgets: Whether the site has kept something, and is to train as if it had not.
        """
        if phase != ROWS:
            raise RejectedMessage("an update is asked for in a phase of the sum without rows")
        self._enter(session, phase)
        self.openings.admit_row(session, state, self.step.covers_replies, forgets)
        self.admitted = session

    def answer(
        self, session: SumSession, phase: str, got: Mapping[str, Tensor], row: Tensor | None = None
    ) -> dict[str, Tensor]:
        """What the site answers in a phase.

        Args:
            session: What the server says of the sum.
            got: What the server's half sent.
            row: The site's coded row, in the phase in which it trains; ``admit_row`` has let it leave.
        """
        admitted, self.admitted = self.admitted, None
        if phase == ROWS and (row is None or admitted != session):
            raise RejectedMessage("a row of the sum is asked for without an update")
        if phase != ROWS:
            self._enter(session, phase)
        if self.half is None:
            raise AssertionError("a sum without a half")
        noisy = self.step.covers_replies
        if phase == self.step.decrypting_phase:
            self.openings.admit_look(session, noisy)
        answer = self.half.answer(phase, got, row)
        if self.half.opening is not None:
            self.openings.admit(session, self.half.opening, noisy)
        return answer

    def _enter(self, session: SumSession, phase: str) -> None:
        """Begin a sum with its first phase; another phase must be of the sum that was begun."""
        if self.client not in session.ids:
            raise RejectedMessage("it belongs to a sum without this site")
        if phase == self.step.first_phase:
            self.step.check_session(session)
            self.session, self.half = session, self.step.client_half(session, self.client, self.keys)
        if self.half is None or session != self.session:
            raise FedloomError("the site knows nothing of this sum (it was restarted, or another sum has begun)")
