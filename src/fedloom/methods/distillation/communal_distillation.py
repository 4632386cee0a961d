"""Distillation on a communal set: what travels is what models say of samples that all clients have.

A round is two waves. In the first, clients train on their own data and send their knowledge of the communal set; the
server makes one of it. In the second, clients get that and distil it into their models, which never travel.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.algorithm import Algorithm, Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept, Statistic
from fedloom.core.facts import Fact, Facts
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply, Shapes, Wave
from fedloom.core.network import Network
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task
from fedloom.methods.requirements import require_communal


@dataclass(frozen=True)
class CommunalDistillation(Algorithm):
    """Clients keep their models, and exchange what these say of samples that all of them have."""

    breaks: ClassVar[Facts] = {
        Fact.SHARED_PREDICTION: "gives every client an entirely personal model",
        Fact.SHARED_MODEL: "has no model that clients share",
    }
    receives: ClassVar[Declared] = {"outputs": Statistic("mean outputs of all sites' models for the communal samples")}
    sends: ClassVar[Declared] = {"outputs": Statistic("its model's outputs for the communal samples", coded=True)}
    keeps: ClassVar[Kept] = {"row": "the site's own model"}
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_SUMS,)
    turns: ClassVar[int] = 2

    def check(self, task: Task, work: LocalWork) -> None:
        require_communal(type(self).__name__.lower(), task)

    def start(self, task: Task) -> State:
        return {}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message()

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        replies = yield Wave(ids, self.broadcast(server, ids), shapes=lambda: self.shapes(server, context))
        server = self.aggregate(server, replies)
        yield Wave(replies.ids, self.lesson(server), turn=1, optional=True, shapes=dict)
        return server

    def shapes(self, server: State, context: ServerContext) -> Shapes:
        """The shapes of what one client sends of its model, which one sample shows.

        Args:
            server: The server's state.
            context: The round, at the server.
        """
        own, communal = context.of_architecture(0), context.task.federation.communal
        found = own.collect(own.task.initial_row(), communal[:1], self.look)
        return {name: (len(communal), *tensor.shape[1:]) for name, tensor in found.items()}

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        rows = self.weights_for(message, cohort)
        if cohort.turn:
            cohort.keep("row", self.distil(cohort, rows, message))
            return Reply({})
        rows = self.learn(cohort, rows)
        cohort.keep("row", rows)
        return Reply(self.knowledge(cohort, rows))

    def learn(self, cohort: Cohort, rows: Tensor) -> Tensor:
        """The rows after training on clients' own data, in the first wave.

        Args:
            cohort: The clients.
            rows: Their models.
        """
        return cohort.train(rows)

    def common_set(self, cohort: Cohort) -> Tensor:
        """The sorted positions of the samples that knowledge is about.

        Args:
            cohort: The clients.
        """
        return cohort.task.federation.communal

    def knowledge(self, cohort: Cohort, rows: Tensor) -> dict[str, Tensor]:
        """What clients send of their models.

        Args:
            cohort: The clients.
            rows: Their models.
        """
        return cohort.collect(rows, self.common_set(cohort), self.look)

    def look(self, net: Network, x: Inputs, places: Tensor) -> Mapping[str, Tensor]:
        """What one model says of some samples, by name, with one entry per sample.

        Args:
            net: The client's network.
            x: Prepared inputs.
            places: The samples' places in the communal set.
        """
        return {"outputs": net(x)}

    def aggregate(self, server: State, replies: Replies) -> State:
        """The server's state with one of clients' knowledge: of each tensor the mean, with the run's weights."""
        return {**server, **{name: replies.mean(name) for name in replies.tensors}}

    def lesson(self, server: State) -> Message:
        """What clients get in the second wave.

        Args:
            server: The server's state after ``aggregate``.
        """
        return Message({name: server[name] for name in self.receives if name in server})

    def distil(self, cohort: Cohort, rows: Tensor, message: Message) -> Tensor:
        """The rows after distillation, in the second wave.

        Args:
            cohort: The clients.
            rows: Their models.
            message: The lesson.
        """
        raise TypeError(f"{type(self).__name__} has no distil")

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return cohort.kept_rows("row", cohort.spread(cohort.task.initial_row()))
