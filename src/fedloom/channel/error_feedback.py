"""Error feedback: what a client could not send is added to its next update, so that nothing is lost, only late.

``p = u + e``, send ``C(p)``, keep ``e = p - C(p)``: the sum of all that was sent plus the error that is left is the sum
of all updates.

Karimireddy et al., Error Feedback Fixes SignSGD and other Gradient Compression Schemes, ICML 2019,
https://arxiv.org/abs/1901.09847.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.task import Task


class ErrorFeedback(ChannelStep):
    """A step that may remember what it did not send; subclasses have ``compress``, ``decode`` and the setting."""

    error_feedback: bool

    @property
    def needs(self) -> Facts:  # type: ignore[override]
        keeps = "keeps what it did not send by position: leave out one of the two, or the step's error feedback"
        return {Fact.SAME_WEIGHTS: keeps} if self.error_feedback else {}

    def check(self, algorithm: Algorithm, task: Task, before: tuple[ChannelStep, ...]) -> None:
        """Refuse error feedback behind a step that sends other entries in every round."""
        width, name = task.layout.width, type(self).__name__.lower()
        if self.error_feedback and any(step.for_task(task).width(width) != width for step in before):
            raise FedloomError(
                f"{name} with error feedback keeps what it did not send by position, and a step before it changes the "
                f"positions: put {name} first, or set error_feedback=false."
            )

    def encode(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The compressed update, with the error of the rounds before."""
        if not self.error_feedback:
            return self.compress(rows, sender)
        rows = rows + sender.kept_rows("error", torch.zeros_like(rows))
        sent, extras = self.compress(rows, sender)
        sender.keep("error", rows - self.decode(sent, extras, rows.shape[1]))
        return sent, extras

    def compress(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The rows as they are sent, and what is sent beside them.

        Args:
            rows: The update of each client, and what it did not send before.
            sender: The clients.
        """
        raise NotImplementedError
