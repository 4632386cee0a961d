"""A step of the channel: what happens to update rows between a client and the server.

Steps act in order on the client's side, on the rows of every reply that is declared a ``Model`` (as the difference to
what the client received) or an ``Update``; the server undoes them in reverse order. The same code runs in a simulation
and at a site.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.facts import STEP_PROMISES, Fact, Facts, Promises, unkept_promises
from fedloom.core.privacy import ClientPrivacy, PlannedRun
from fedloom.core.settings import check_settings
from fedloom.core.task import Task

Extras = Mapping[str, Tensor]
"""What a step sends beside its rows, such as positions or scales: an entry per client under each name."""


@dataclass(frozen=True)
class Sender:
    """The clients whose rows a step encodes. What they keep belongs to one step and one reply.

    Args:
        cohort: The clients.
        prefix: What the names of their state begin with.
        received: The weights that the clients started from, one row or one per client; None where the reply is a
            difference already.
    """

    cohort: Cohort
    prefix: str
    received: Tensor | None = None

    @property
    def steps(self) -> Tensor:
        """How many optimiser steps each client has taken in this round."""
        return self.cohort.steps

    def kept_rows(self, name: str, default: Tensor) -> Tensor:
        """What the clients kept under a name; a client that kept nothing yet has its row of ``default``.

        Args:
            default: A row per client.
        """
        return self.cohort.kept_rows(f"{self.prefix}/{name}", default)

    def keep(self, name: str, rows: Tensor) -> None:
        """Keep a row per client until its next round.

        Args:
            rows: A row per client.
        """
        self.cohort.keep(f"{self.prefix}/{name}", rows)

    def generator(self, place: int) -> torch.Generator:
        """The randomness of one client for this step in this round.

        Args:
            place: The place of the client in the cohort.
        """
        return self.cohort.generator(f"{self.prefix}/{self.cohort.turn}", place)


@dataclass(frozen=True)
class ChannelStep:
    """A step that changes nothing; subclasses override ``encode``, and what it needs. Its settings are its fields."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    _promises: ClassVar[Promises] = STEP_PROMISES

    needs: ClassVar[Facts] = {}
    """What the step needs of other parts, and why."""
    breaks: ClassVar[Facts] = {}
    """What other parts cannot rely on, and why."""
    may_be_silent: ClassVar[bool] = False
    """Whether clients may send nothing in a round (``silent``)."""
    grants: ClassVar[Collection[Fact]] = ()
    """``(Fact.ADDABLE,)`` if encoded rows are updates themselves, which can be added: nothing is undone at the
    server."""
    is_last: ClassVar[bool] = False
    """Whether no step may come after it, because what it sends is packed and not float32 numbers any more."""

    codes_statistics: ClassVar[bool] = False
    """Whether it also acts on statistics that a method declares as ``coded`` (logits): it has no memory, and what it
    sends stands for any numbers, not only for small changes."""

    def __post_init__(self) -> None:
        check_settings(self)

    def _derived_facts(self) -> tuple[Facts, Facts]:
        """What follows from the flags of a step."""
        needs: dict[Fact, str] = {Fact.EXCHANGES: "acts on what clients send: leave it out"}
        breaks: dict[Fact, str] = {}
        if self.codes_statistics:
            needs[Fact.CODABLE] = "acts on what clients send: leave it out"
        else:
            needs[Fact.UPDATES] = (
                "acts on updates of a model: leave it out; qsgd and halfprecision act on statistics too"
            )
        if self.may_be_silent:
            breaks[Fact.ALL_ANSWER] = "lets clients withhold their update"
            needs[Fact.SAME_WEIGHTS] = "compares an update with the last one: leave out one of the two"
        if self.covers_replies:
            needs[Fact.SAME_WEIGHTS] = "adds noise to whole updates: leave out one of the two"
        if Fact.ADDABLE in unkept_promises(self, STEP_PROMISES):
            needs[Fact.READABLE] = "codes changes of a model that the server has too: leave out one of the two"
        return needs, breaks

    def for_task(self, task: Task) -> Self:
        """The step as a run on a task uses it; most steps need to know nothing of the task."""
        return self

    def planned(self, plan: PlannedRun) -> Self:
        """The step with what follows from the run, such as the noise for its target; most are complete.

        Args:
            plan: The run as far as it is known before it starts.
        """
        return self

    covers_replies: ClassVar[bool] = False
    """Whether a client may send nothing that this step does not act on: a reply that is not an update is an error."""

    def client_ledgers(self, plan: PlannedRun) -> Mapping[str, ClientPrivacy]:
        """The ledger of what each client spends, by the kind of noise, if the step adds noise; empty for most.

        A ``FedloomError`` says that the settings protect nobody.

        Args:
            plan: The run as far as it is known before it starts.
        """
        return {}

    def check_rounds(self, plan: PlannedRun) -> None:
        """Raise a ``FedloomError`` if rounds of the plan may have too few clients for this step."""

    def check(self, algorithm: Algorithm, task: Task, before: tuple[ChannelStep, ...]) -> None:
        """Raise a ``FedloomError`` for a combination that this step cannot serve, before any work is done.

        Args:
            algorithm: The method of the run.
            before: The steps before this one, in order.
        """

    def width(self, width: int) -> int:
        """The width of the encoded rows.

        Args:
            width: The width of the rows before encoding.
        """
        return width

    def silent(self, rows: Tensor, origin: Tensor, sender: Sender) -> Tensor:
        """A mask of the clients that send nothing in this round; it is asked only if ``may_be_silent``.

        Args:
            rows: The update of each client, before any step.
            origin: What it is a change of: one row, or one per client.
            sender: The clients, with what they kept and their randomness.
        """
        return torch.zeros(len(rows), dtype=torch.bool)

    def encode(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The rows as they are sent, and what is sent beside them. It runs where the clients are.

        Args:
            rows: The update of each client.
            sender: The clients, with what they kept and their randomness.
        """
        return rows, {}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """The rows as the server uses them. A ``ValueError`` says that they cannot come from ``encode``.

        Args:
            rows: The encoded rows.
            extras: What was sent beside them.
            width: The width of the rows before encoding.
        """
        return rows
