"""Jobs: the pieces of work of a round, each for one cohort. An engine runs them.

A job is a small record; its inputs (the message, what clients kept) and its results are named tensors. An engine moves
them and knows nothing of methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from fedloom.core.message import Message
from fedloom.registry.nested_keys import select_prefix
from fedloom.secure.sum_step import SumSession, SumStep
from fedloom.secure.sums import LOST, SUM, Summed, play_sum

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Job:
    """One piece of work for some clients.

    ``update`` trains clients; ``ask`` evaluates their current models on validation or training data, for selectors;
    ``score`` evaluates what they predict with on their test parts; ``global`` evaluates the shared row on the samples
    ``ids[0]`` to ``ids[1] - 1`` of the global test set; ``confusion`` counts which classes were taken for which on the
    clients' test parts. ``places`` are the clients' places in the wave's ``ids``.
    ``measure`` asks for more: an ``update`` then evaluates the received and the trained models on the clients' test
    parts, a ``score`` what clients predict with on their validation parts.
    """

    kind: Literal["update", "ask", "score", "global", "confusion"]
    round: int
    ids: list[int]
    places: list[int]
    measure: bool = False
    turn: int = 0
    session: SumSession | None = None
    """What is known of the sum that an ``update`` is for, if only sums leave."""


REPLY, KEPT, MEASURED, SILENT = "reply/", "kept/", ("received/", "trained/"), "silent"
"""How the parts of an answer are told apart where tensors travel by name: between processes and on the wire."""
COSTS = ("steps", "samples", "bytes")


@dataclass(frozen=True)
class CohortAnswer:
    """What the clients of an ``update`` answer: an entry per client in every tensor.

    Args:
        reply: What goes to the server.
        kept: What stays with the clients (it comes back to a simulation, and never leaves a site).
        costs: ``steps``, ``samples`` and ``bytes``.
        measured: Scores of the models that they received and trained.
        silent: A mask of the clients that send nothing but this; None where nobody may.
    """

    reply: Tensors
    kept: Tensors
    costs: Tensors
    measured: Tensors = field(default_factory=dict)
    silent: Tensor | None = None

    def pack(self) -> Tensors:
        """The same as named tensors, which engines move."""
        named = {f"{REPLY}{name}": tensor for name, tensor in self.reply.items()}
        named |= {f"{KEPT}{name}": tensor for name, tensor in self.kept.items()}
        flags = {} if self.silent is None else {SILENT: self.silent.to(torch.uint8)}
        return named | self.costs | flags | self.measured

    @staticmethod
    def unpack(tensors: Mapping[str, Tensor]) -> CohortAnswer:
        """The answer that was packed; a site's comes without what it keeps.

        Args:
            tensors: The named tensors.
        """
        return CohortAnswer(
            select_prefix(tensors, REPLY),
            select_prefix(tensors, KEPT),
            {name: tensors[name] for name in COSTS if name in tensors},
            {name: tensor for name, tensor in tensors.items() if name.startswith(MEASURED)},
            tensors[SILENT].bool() if SILENT in tensors else None,
        )

    def only(self, rows: Tensor) -> CohortAnswer:
        """The answer of some of the clients.

        Args:
            rows: Their places in the cohort.
        """
        reply, kept, costs, measured = (
            {name: tensor[rows] for name, tensor in part.items()}
            for part in (self.reply, self.kept, self.costs, self.measured)
        )
        return CohortAnswer(reply, kept, costs, measured, None if self.silent is None else self.silent[rows])


class Engine(Protocol):
    """Where jobs run."""

    def begin(self, round_number: int) -> None:
        """Note that a round begins, or begins again."""

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, Tensor]) -> Sequence[Tensors | None]:
        """Run jobs; results come back in the order of the jobs, None for a job without a result."""

    def sum(
        self, jobs: list[Job], message: Message, kept: Mapping[str, Tensor], step: SumStep, session: SumSession
    ) -> Summed:
        """Run the updates of a sum, of which the server gets nothing but the sum."""

    def exclude(self, client: int, name: str, what: str, reason: str) -> None:
        """Note that the result of a client's job does not count, and why; its state stays as it was before the job."""

    def remark(self, client: int, name: str, what: str, reason: str) -> None:
        """Note what must be said of a client whose result counts: in a word, and why."""

    def take_remarks(self) -> list[dict[str, Any]]:
        """Return, once, what was to be said of clients since the last call."""

    def take_exclusions(self) -> list[dict[str, Any]]:
        """Return, once, the clients whose answers did not count since the last call, and why."""

    def close(self) -> None:
        """End workers and connections."""


class LocalEngine:
    """The base of engines that simulate: every job is done, or the run fails."""

    def __init__(self) -> None:
        self.excluded: list[dict[str, Any]] = []
        self.remarks: list[dict[str, Any]] = []

    def begin(self, round_number: int) -> None:
        """Do nothing: all rounds are alike."""

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, Tensor]) -> Sequence[Tensors | None]:
        """Run jobs; each kind of engine does it in its own way."""
        raise NotImplementedError

    def sum(
        self, jobs: list[Job], message: Message, kept: Mapping[str, Tensor], step: SumStep, session: SumSession
    ) -> Summed:
        """Run the updates, then let both halves of the sum talk in this process."""
        rows: dict[int, Tensor] = {}
        results: list[Tensors | None] = []
        for job, result in zip(jobs, self.run(jobs, message, kept), strict=True):
            answer = CohortAnswer.unpack(result or {})
            for client, row, lost in zip(job.ids, answer.reply[SUM], answer.reply[LOST].tolist(), strict=True):
                if not lost:
                    rows[client] = row
            results.append(replace(answer, reply={}).pack())
        total, up, down = play_sum(step, session, rows)
        return Summed(total, results, up, down)

    def exclude(self, client: int, name: str, what: str, reason: str) -> None:
        """Note it for the round's record."""
        self.excluded.append({"client": client, "name": name, "what": what, "reason": reason})

    def remark(self, client: int, name: str, what: str, reason: str) -> None:
        """Note it for the round's record."""
        self.remarks.append({"client": client, "name": name, "what": what, "reason": reason})

    def take_remarks(self) -> list[dict[str, Any]]:
        """Return and clear the list of remarks."""
        found, self.remarks = self.remarks, []
        return found

    def take_exclusions(self) -> list[dict[str, Any]]:
        """Return and clear the list of excluded clients, with reasons."""
        found, self.excluded = self.excluded, []
        return found
