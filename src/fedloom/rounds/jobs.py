"""Jobs: the pieces of work of a round, each for one cohort. An engine runs them.

A job is a small record; its inputs are the message and what clients kept, its results named tensors. An engine moves
them and knows nothing of methods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from fedloom.core.kept_rows import KeptRows, pack_kept, unpack_kept
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
    parts, a ``score`` what clients predict with on their validation parts, an ``ask`` is about training parts even
    where there are validation parts.
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
    kept: Mapping[str, KeptRows]
    costs: Tensors
    measured: Tensors = field(default_factory=dict)
    silent: Tensor | None = None

    def pack(self) -> Tensors:
        """The same as named tensors, which engines move."""
        named = {f"{REPLY}{name}": tensor for name, tensor in self.reply.items()}
        named |= pack_kept(self.kept, KEPT)
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
            unpack_kept(tensors, KEPT),
            {name: tensors[name] for name in COSTS if name in tensors},
            {name: tensor for name, tensor in tensors.items() if name.startswith(MEASURED)},
            tensors[SILENT].bool() if SILENT in tensors else None,
        )

    def only(self, rows: Tensor) -> CohortAnswer:
        """The answer of some of the clients.

        Args:
            rows: Their places in the cohort.
        """
        reply, costs, measured = (
            {name: tensor[rows] for name, tensor in part.items()} for part in (self.reply, self.costs, self.measured)
        )
        kept = {name: one.only(rows) for name, one in self.kept.items()}
        return CohortAnswer(reply, kept, costs, measured, None if self.silent is None else self.silent[rows])


def split_kept(result: Mapping[str, Tensor]) -> tuple[Tensors, dict[str, KeptRows]]:
    """What of a job's result leaves the clients, and what stays with them.

    Args:
        result: The result, as named tensors.
    """
    leaves = {name: tensor for name, tensor in result.items() if not name.startswith(KEPT)}
    return leaves, unpack_kept(result, KEPT)


class Engine(Protocol):
    """Where jobs run."""

    def begin(self, round_number: int) -> None:
        """Note that a round begins, or begins again."""

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows]) -> Sequence[Tensors | None]:
        """Run jobs; results come back in the order of the jobs, None for a job without a result."""

    def sum(
        self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows], step: SumStep, session: SumSession
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

    @property
    def exhausted(self) -> Collection[int]:
        """The clients that have said in this round that their privacy budget is spent."""

    @property
    def broken(self) -> Collection[int]:
        """The clients without a result because what they sent last in this round is no number."""

    def close(self) -> None:
        """End workers and connections."""


class LocalEngine:
    """The base of engines that simulate: every job is done, or the run fails."""

    def __init__(self) -> None:
        self.excluded: list[dict[str, Any]] = []
        self.remarks: list[dict[str, Any]] = []

    def begin(self, round_number: int) -> None:
        """Do nothing: all rounds are alike."""

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows]) -> Sequence[Tensors | None]:
        """Run jobs; each kind of engine does it in its own way."""
        raise NotImplementedError

    def sum(
        self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows], step: SumStep, session: SumSession
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

    @property
    def exhausted(self) -> Collection[int]:
        """Nobody: here the run counts what its clients spend."""
        return ()

    @property
    def broken(self) -> Collection[int]:
        """Nobody: here every client has a result, and the line of stations looks at it."""
        return ()

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


def answered_jobs(jobs: list[Job], results: Sequence[Tensors | None]) -> tuple[list[Job], list[Tensors], list[int]]:
    """The completed jobs, their results, and the places in the wave of the clients that answered.

    The places of the returned jobs count only those clients.
    """
    pairs = [(job, result) for job, result in zip(jobs, results, strict=True) if result is not None]
    places = sorted(place for job, _ in pairs for place in job.places)
    if len(pairs) == len(jobs):
        return jobs, [result for _, result in pairs], places
    rank = {place: number for number, place in enumerate(places)}
    moved = [replace(job, places=[rank[place] for place in job.places]) for job, _ in pairs]
    return moved, [result for _, result in pairs], places


def merge(jobs: list[Job], results: list[Tensors]) -> Tensors:
    """The results of all jobs as one, in the order of the clients' places."""
    count, merged = sum(len(job.places) for job in jobs), {}
    for name, first in results[0].items() if results else ():
        merged[name] = first.new_empty((count, *first.shape[1:]))
        for job, result in zip(jobs, results, strict=True):
            merged[name].index_copy_(0, torch.tensor(job.places), result[name])
    return merged


def with_prefix(tensors: Tensors, prefix: str) -> Tensors:
    """The tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def blocks(ids: list[int], size: int) -> Iterator[list[int]]:
    """Ids in blocks."""
    yield from (ids[start : start + size] for start in range(0, len(ids), size))
