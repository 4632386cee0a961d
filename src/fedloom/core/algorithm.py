"""A method is five small functions, of which most methods override one or two.

The server half (``start``, ``broadcast``, ``aggregate``) and the client half (``client_update``, ``weights_for``)
meet only in messages, so the same class runs in simulation and on deployed machines. A method declares what travels
(``receives``, ``sends``) and what stays with clients (``keeps``), and states in facts what other parts of a run may
rely on (``core/facts.py``); most of these follow from the declarations. The other functions are hooks for methods whose
round is more than one exchange, or whose model has more than one part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept, Model, Statistic, Update
from fedloom.core.facts import METHOD_PROMISES, Fact, Facts, Promises, holds
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply, Wave
from fedloom.core.relays import Handover
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import check_settings
from fedloom.core.task import Task

ServerStep = Callable[[Tensor, Tensor, Mapping[str, Tensor]], tuple[Tensor, dict[str, Tensor]]]
"""``(row, mean of the clients' rows, state) -> (new row, new state)``."""


@runtime_checkable
class ScheduledServerStep(Protocol):
    """A server optimiser that is another one in each round."""

    def at(self, round_number: int, rounds: int) -> ServerStep:
        """The optimiser of a round, counted from 1, of so many."""


State = Mapping[str, Tensor]
"""The server's state between rounds: named tensors, never changed in place."""
Round = Generator[Wave, Replies, State]
"""A round of the server: ``replies = yield Wave(...)`` as often as needed, then return the new state."""


@dataclass(frozen=True)
class Algorithm:
    """A method. Its hyper-parameters are its fields; it holds no state of its own."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    _promises: ClassVar[Promises] = METHOD_PROMISES

    receives: ClassVar[Declared] = {"row": Model("the model's numbers")}
    """The tensors that clients get, by name."""
    sends: ClassVar[Declared] = {"row": Model("the model that the site trained")}
    """The tensors that clients reply with, by name; where that depends on settings, exactly those of the settings."""
    keeps: ClassVar[Kept] = {}
    """What stays with clients between rounds, by name, in words; the part of a name before ``/`` is enough."""
    turns: ClassVar[int] = 1
    """How often a client is asked in one round, or before the first one, at most: one more than the largest ``turn`` of
    the method's waves. A deployed site answers no more requests of a round."""
    needs: ClassVar[Facts] = {}
    """What the method needs of other parts, and why."""
    breaks: ClassVar[Facts] = {}
    """What other parts cannot rely on, and why."""
    grants: ClassVar[Collection[Fact]] = ()
    """Promises about the method's code. A subclass that overrides what they are about has to make them again."""

    def __post_init__(self) -> None:
        check_settings(self)

    # -- the five functions

    def start(self, task: Task) -> State:
        """The server's state before the first round. A shared model is called ``row``."""
        return {"row": task.initial_row()}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        """The message to the clients of a round.

        Args:
            server: The server's state.
            ids: The clients that get it.
        """
        return Message({"row": server["row"]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        """Work on the clients' data with the message and with what they kept; return what goes to the server.

        Args:
            cohort: The clients.
            message: What they got from the server.
        """
        raise TypeError(f"{type(self).__name__} has no client_update")

    def aggregate(self, server: State, replies: Replies) -> State:
        """The server's state after a round.

        Args:
            server: The server's state before the round.
            replies: What the clients replied, in client order.
        """
        return {**server, "row": replies.mean("row")}

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        """What clients predict with: one row for all, or a row per client of the cohort.

        Args:
            message: What the clients would get from the server now.
            cohort: The clients.
        """
        return message["row"]

    # -- hooks

    def check(self, task: Task, work: LocalWork) -> None:
        """Raise a ``FedloomError`` for a task or local work that the method cannot use, before any work is done."""

    def adapt_task(self, task: Task) -> Task:
        """The task with what the method adds to its model (``core.model.adapted_model.add_modules``)."""
        return task

    def prelude(self, server: State, context: ServerContext) -> Round | None:
        """Waves that run once, before the first round; most methods have none.

        Args:
            server: The server's state before the first round.
            context: What the server may use.
        """
        return None

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        """One round; most methods are one wave.

        Args:
            server: The server's state before the round.
            ids: The selected clients, or groups of clients.
            context: What the server may use in this round.
        """
        replies = yield Wave(ids, self.broadcast(server, ids))
        return self.aggregate(server, replies)

    def steps_per_turn(self, work: LocalWork, samples: int) -> int:
        """How many gradient steps a client makes at most when it is asked once; noise for a target is planned for them.

        Args:
            work: The run's local work.
            samples: How many training samples the client has.
        """
        return work.steps_for(samples)

    def is_finished(self, server: State) -> bool:
        """Whether the method has nothing more to do by the server's state; the run then ends before its last round."""
        return False

    def prepare_cohort(self, cohort: Cohort) -> None:
        """Put what clients kept into their data, before they do anything (edges that a client added to its graph)."""

    @property
    def server(self) -> ServerStep | None:
        """A server optimiser that belongs to the method; most have none."""
        return None

    # -- what follows from the declarations

    def _derived_facts(self) -> tuple[Facts, Facts]:
        """What a method needs and breaks because of what it declares."""
        sent, got = list(self.sends.values()), list(self.receives.values())
        models = [name for name, one in self.receives.items() if isinstance(one, Model)]
        updates = [name for name, one in self.sends.items() if isinstance(one, Model | Update)]
        needs: dict[Fact, str] = {}
        breaks: dict[Fact, str] = {}
        if not updates:
            breaks[Fact.UPDATES] = "sends no update of a model"
            if not any(isinstance(one, Statistic) and one.coded for one in sent):
                breaks[Fact.CODABLE] = "sends nothing that a channel could code"
        for name, one in self.sends.items():
            if not isinstance(one, Model | Update):
                breaks[Fact.ONLY_UPDATES] = f"lets clients send {name}, which is not an update"
        if not models:
            breaks[Fact.MODEL_DOWN] = "sends no model down to its clients"
        if any(isinstance(one, Model) and one.each for one in got):
            breaks[Fact.SAME_MODEL] = "sends another model to each client"
        if not isinstance(self.sends.get("row"), Model):
            breaks[Fact.TRAINED_MODELS] = "does not average whole models that clients trained"
        if any(isinstance(one, Model | Update) for one in (*sent, *got)):
            breaks[Fact.MIXED_MODELS] = "averages rows of weights"
        if models != ["row"] or updates != ["row"] or self.keeps:
            breaks[Fact.PLAIN_MODEL] = "lets clients keep, get or send something else"
        if type(self).weights_for is Algorithm.weights_for:
            breaks[Fact.OWN_PREDICTION] = "lets clients predict with the model that they receive"
        if self.server is not None:
            breaks[Fact.ONE_OPTIMIZER] = "has its own server optimiser"
        if isinstance(self, SelectsGroups):
            breaks[Fact.FROM_SERVER] = "lets clients hand models to each other"
            breaks[Fact.SINGLE_CLIENTS] = "selects groups of clients"
            breaks[Fact.KNOWN_UNITS] = "forms the groups itself"
            needs[Fact.ALL_ANSWER] = "plays with groups of clients, of whom each needs the reply of the one before it"
        return needs, breaks


@runtime_checkable
class SelectsGroups(Protocol):
    """A method whose rounds select groups of clients; ``play`` then gets numbers of groups instead of clients."""

    def groups(self, server: State) -> list[list[int]]:
        """The groups of clients that a round selects from."""


@runtime_checkable
class HandsOver(Protocol):
    """A method whose clients hand models to each other, which the server may not be able to read."""

    def handover(self, client: int, round_number: int, turn: int, seed: int) -> Handover | None:
        """From whom a client gets its model and to whom it goes, where clients encrypt for each other; else None.

        A site asks this of its own copy of the method, so that it takes nothing of it from the server's word.

        Args:
            client: The client that trains.
            round_number: The round, counted from 1.
            turn: How often the client was already asked in this round.
            seed: The run's seed.
        """


def handover_of(algorithm: Algorithm, client: int, round_number: int, turn: int, seed: int) -> Handover | None:
    """From whom a client gets its model and to whom it goes; None where clients do not encrypt for each other.

    Args:
        algorithm: The method.
        client: The client that trains.
        round_number: The round, counted from 1.
        turn: How often the client was already asked in this round.
        seed: The run's seed.
    """
    return algorithm.handover(client, round_number, turn, seed) if isinstance(algorithm, HandsOver) else None


def groups_of(algorithm: Algorithm, server: State) -> list[list[int]] | None:
    """The groups of clients that a round of a method selects from; None where it selects clients.

    Args:
        algorithm: The method.
        server: The server's state.
    """
    find = getattr(algorithm, "groups", None)  # asked in every round, where the check of a protocol would be felt
    return None if find is None else find(server)


def exchanges(algorithm: Algorithm) -> bool:
    """Whether the clients and the server of a method exchange anything: if not, it costs no bytes."""
    return holds(Fact.EXCHANGES, algorithm)
