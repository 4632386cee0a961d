"""FedU: every client trains a model of its own; the server draws the models of related clients together.

After local training ``w_k <- w_k - strength * sum_l a_kl (w_k - w_l)`` over the clients l of the round, which is
``rows - strength * laplacian @ rows``. With strength or relations of 0 this is ``local``.

Dinh, Vu, Tran, Dao and Zhang, FedU: A Unified Framework for Federated Multi-Task Learning with Laplacian
Regularization, 2021, https://arxiv.org/abs/2102.07148. The paper's factors (half the learning rate, the number of local
steps, ...) appear only as one product, which is ``strength`` here. The server holds all clients' models; a client that
never took part has the initial one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Model
from fedloom.core.errors import FedloomError, Stopped
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.seeds import generator
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import NonNegative
from fedloom.core.task import Task

UNRELATED = 0.25
"""Random relations below this count as none, as in the authors' code."""


@dataclass(frozen=True)
class FedU(Algorithm):
    """Every client trains a model of its own; the server draws the models of related clients together.

    Args:
        strength: Weight of the relations in the server's step.
        relations: How strongly each pair of clients is related: ``"full"`` (all 1), ``"random"`` (uniform in 0..1, made
            symmetric, values below 0.25 set to 0), or a symmetric matrix with a row per client.
    """

    breaks: ClassVar[Facts] = {
        Fact.SHARED_PREDICTION: "gives every client an entirely personal model",
        Fact.ONE_MEAN: "does not take one mean of what its clients send",
    }
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_TRAINING,)
    receives: ClassVar[Declared] = {"row": Model("the site's own model, drawn to those of others", each=True)}
    sends: ClassVar[Declared] = {"row": Model("the model that the site trained", single=True)}

    strength: NonNegative = 0.01
    relations: Literal["full", "random"] | list[list[NonNegative]] = "full"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relations in ("full", "random"):
            return
        sizes = {len(self.relations), *map(len, self.relations)}
        if len(sizes) > 1:
            raise FedloomError("relations must be 'full', 'random', or a square matrix with a row per client.")
        matrix = torch.tensor(self.relations, dtype=torch.float64)
        if not torch.equal(matrix, matrix.t()):
            k, other = (matrix != matrix.t()).nonzero()[0].tolist()
            raise FedloomError(
                f"relations[{k}][{other}]={matrix[k, other]:g} and relations[{other}][{k}]={matrix[other, k]:g}: "
                "relations are mutual, so the matrix must be symmetric."
            )

    def check(self, task: Task, work: LocalWork) -> None:
        clients = task.federation.clients
        if not isinstance(self.relations, str) and len(self.relations) != clients:
            raise FedloomError(
                f"relations has {len(self.relations)} rows, but the task has {clients} clients: give each client a row."
            )

    def start(self, task: Task) -> State:
        return {"rows": task.initial_row().repeat(task.federation.clients, 1)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message(each={"row": server["rows"][torch.tensor(ids)]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        return Reply({"row": cohort.train(message["row"])})

    def aggregate(self, server: State, replies: Replies) -> State:
        ids, rows = torch.tensor(replies.ids), replies["row"]
        related = self._relations_between(ids, len(server["rows"]), replies.context).fill_diagonal_(0)
        degrees = related.sum(1)
        if self.strength * degrees.max() > 1 + 1e-6:
            raise Stopped(
                f"strength={self.strength:g}: relations of a client to the others of round {replies.context.round} sum "
                f"to {degrees.max():.4g}, and the step overshoots; use at most {1 / degrees.max():.3g}."
            )
        laplacian = degrees.diag() - related
        return {"rows": server["rows"].index_copy(0, ids, rows - self.strength * (laplacian @ rows))}

    def _relations_between(self, ids: Tensor, clients: int, context: ServerContext) -> Tensor:
        """The matrix of relations between some clients; it is the same in every round."""
        if self.relations == "full":
            return torch.ones(len(ids), len(ids))
        if self.relations == "random":
            drawn = torch.rand(clients, clients, generator=generator(context.seed, "relations"))[ids][:, ids]
            mutual = (drawn + drawn.t()) / 2
            return torch.where(mutual < UNRELATED, 0.0, mutual)
        return torch.tensor(self.relations)[ids][:, ids]
