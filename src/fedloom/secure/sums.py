"""Sums of replies: how clients code them, how both halves of a sum talk in a simulation, and the mean that it makes.

With ``w_k`` clients' weights and ``d_k`` their changes, the server gets ``sum_k w_k d_k`` and ``sum_k w_k`` and nothing
else of the replies; the mean of the weights is ``x + sum_k w_k d_k / sum_k w_k``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.channel.channel import Channel, base_of, change_of
from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import declaration_of
from fedloom.core.errors import Abandoned, FedloomError
from fedloom.core.message import Message, Reply, Shapes
from fedloom.secure.sum_step import ROWS, Decoded, SumSession, SumStep, Total

log = logging.getLogger("fedloom")

SUM = "sum"
"""The name under which coded rows are sent."""
LOST = "lost"
"""The name of a mark on clients that cannot send a row, since it is not finite."""


@dataclass(frozen=True)
class Sums:
    """Coding of replies for sums, and decoding of a sum.

    Args:
        channel: The steps before the sum.
        step: How sums are hidden.
        by_samples: Whether a client's weight is its number of training samples; otherwise all count alike.
    """

    channel: Channel
    step: SumStep
    by_samples: bool

    @property
    def algorithm(self) -> Algorithm:
        """The method."""
        return self.channel.algorithm

    def code(self, reply: Reply, message: Message, cohort: Cohort, session: SumSession) -> Reply:
        """A reply as rows that can be added.

        Args:
            reply: What the method's clients replied.
            message: The message that it answers.
            cohort: The clients.
            session: What is known of the sum.
        """
        strange = [name for name in reply.tensors if name not in self.algorithm.sends]
        if strange:
            raise FedloomError(
                f"{type(self.algorithm).__name__} replies with {strange[0]}, which it does not declare in sends, so "
                f"it would leave its clients bare: declare it, or leave out {type(self.step).__name__.lower()}."
            )
        sent = self.channel.encode(reply, message, cohort).tensors
        changed = self.channel.update_names(reply.tensors, message) if self.channel.steps else []
        rows = [
            sent[name] if name in changed else change_of(self.algorithm, name, message, sent)
            for name in self.algorithm.sends
            if name in reply.tensors
        ]
        nothing = torch.zeros(len(cohort), 0, dtype=torch.float64)  # a wave may ask for work, and for no reply
        changes = torch.cat([nothing, *(row.flatten(1).double() for row in rows)], dim=1)
        lost = ~changes.isfinite().all(1)
        if self.step.covers_replies:  # that an update is not finite is not said either
            changes, lost = changes.masked_fill(lost[:, None], 0.0), torch.zeros_like(lost)
        weights = self.weights(cohort.samples, session.most)
        values = changes.masked_fill(lost[:, None], 0.0) * (weights / session.most)[:, None]
        purpose = f"sum/{cohort.turn}"
        random = [cohort.generator(purpose, place) for place in range(len(cohort))]
        return Reply({SUM: self.step.code(values, weights, session, random), LOST: lost})

    def weights(self, samples: Tensor, most: int) -> Tensor:
        """The weights of clients, which nobody but themselves multiplies with.

        Args:
            samples: Their numbers of training samples.
            most: The largest weight that a client may have.
        """
        return samples.clamp(max=most) if self.by_samples else torch.ones_like(samples)

    def most(self, samples: Tensor) -> int:
        """The largest weight of some clients."""
        return max(1, int(samples.max())) if self.by_samples else 1

    def means(self, decoded: Decoded, message: Message, most: int, shapes: Shapes | None = None) -> dict[str, Tensor]:
        """The mean of each reply, as the only row of its tensor.

        Args:
            decoded: What is in the sum.
            message: The message that was answered.
            most: The largest weight of the session.
            shapes: The shapes of a client's replies; by default they are those of tensors of the message.
        """
        if decoded.weight <= 0:
            raise FedloomError("a sum has no weight: all of its clients are without training samples.")
        if shapes is None:
            found = {name: self._like(name, message) for name in self.algorithm.sends}
        else:
            found = {name: torch.empty(shapes[name]) for name in self.algorithm.sends if name in shapes}
        width = sum(like.numel() for like in found.values())
        if len(decoded.values) != width:
            raise Abandoned(f"a sum has {len(decoded.values):,} numbers, and the replies of its clients have {width:,}")
        mean, means = decoded.values * (most / decoded.weight), dict[str, Tensor]()
        for name, like in found.items():
            part, mean = mean[: like.numel()].reshape(like.shape), mean[like.numel() :]
            base = base_of(self.algorithm, name, message, {name: like[None]})
            means[name] = (part.to(like.dtype) if base is None else (like.double() + part).to(like.dtype))[None]
        return means

    def _like(self, name: str, message: Message) -> Tensor:
        """A tensor of the message that has the shape of a client's reply."""
        kind = declaration_of(self.algorithm, name, message)
        like = message.shared.get(getattr(kind, "of", None) or name, message.shared.get(getattr(kind, "like", "")))
        if like is None:
            raise FedloomError(
                f"the clients of {type(self.algorithm).__name__} do not all start from one {name}, so their changes "
                f"cannot be added: leave out {type(self.step).__name__.lower()}."
            )
        return like


def channel_of(algorithm: Algorithm, steps: tuple[ChannelStep, ...]) -> Channel:
    """The channel of some steps; a step that lets only sums leave is not one of its steps.

    Args:
        algorithm: The method.
    """
    return Channel(algorithm, tuple(step for step in steps if not isinstance(step, SumStep)))


def sums_of(algorithm: Algorithm, steps: tuple[ChannelStep, ...], weight_by: str) -> Sums:
    """How replies are added, by the last of some steps.

    Args:
        algorithm: The method.
        steps: All steps; the last one lets only sums leave.
        weight_by: The name of the weighting.
    """
    last = steps[-1]
    assert isinstance(last, SumStep)  # noqa: S101
    return Sums(channel_of(algorithm, steps), last, weight_by == "samples")


@dataclass(frozen=True)
class Summed:
    """A sum and what it cost.

    Args:
        total: The sum.
        results: The results of the jobs without replies; None for a client that is not in the sum.
        bytes_up: What clients sent, in all phases.
        bytes_down: What they got in all phases, without the method's own message.
    """

    total: Total
    results: Sequence[Mapping[str, Tensor] | None]
    bytes_up: int
    bytes_down: int


def play_sum(step: SumStep, session: SumSession, rows: Mapping[int, Tensor]) -> tuple[Total, int, int]:
    """Let both halves of a sum talk in this process: the sum, and the bytes up and down.

    Args:
        step: How sums are hidden.
        session: What is known of the sum.
        rows: The coded row of each client that has one.
    """
    server_keys, keys = step.simulate_keys(session.ids)
    halves = {client: step.client_half(session, client, keys[client]) for client in session.ids}
    server, up, down = step.server_half(session, server_keys), 0, 0
    try:
        phase = next(server)
        while True:
            answers = {}
            for client, got in phase.each.items():
                if client in rows or phase.name != ROWS:
                    try:
                        row = rows[client] if phase.name == ROWS else None
                        answers[client] = halves[client].answer(phase.name, got, row)
                    except FedloomError as error:  # a client that refuses has dropped out
                        log.warning("client %s dropped out of a sum: %s", client, error)
            down += sum(tensor.nbytes for got in phase.each.values() for tensor in got.values())
            up += sum(tensor.nbytes for answer in answers.values() for tensor in answer.values())
            phase = server.send(answers)
    except StopIteration as end:
        total: Total = end.value
        return total, up, down
