"""A model per client, tied to the others': by a graph of who is like whom, or by a shared model.

FedU (Dinh et al., 2021) adds a Laplacian term ``sum_kl a_kl ||w_k - w_l||^2`` and takes its step on the server; Ditto
(Li et al., ICML 2021) runs FedAvg and, beside it, holds a personal model near what FedAvg sends. With no ties both are
local training. FedU's factors (half the learning rate, the number of local steps, ...) only ever appear as one product,
which is called ``strength`` here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.seeds import generator
from fedloom.core.selector import Stopped
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.training.stacked import Affine

UNRELATED = 0.25
"""Random relations below this are none, as in the authors' code."""


@dataclass(frozen=True)
class FedU(Algorithm):
    """Every client trains a model of its own; the server draws related models together.

    Dinh, Vu, Tran, Dao and Zhang, FedU: A Unified Framework for Federated Multi-Task Learning with Laplacian
    Regularization, 2021. After local training ``w_k - strength * sum_l a_kl (w_k - w_l)`` over the selected clients l.
    ``relations`` a are ``"full"`` (all 1), ``"random"`` (uniform in 0..1, made symmetric, below 0.25 none) or a
    symmetric matrix. With strength or relations of 0 this is ``local``. The server holds all clients' models; a client
    that never took part has the initial one.
    """

    personal: ClassVar[bool] = True

    strength: float = 0.01
    relations: Literal["full", "random"] | list[list[float]] = "full"

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise FedloomError(f"strength={self.strength}: the weight of the relations must not be negative.")
        if self.relations in ("full", "random"):
            return
        sizes = {len(self.relations), *map(len, self.relations)}
        if isinstance(self.relations, str) or len(sizes) > 1:
            raise FedloomError("relations must be 'full', 'random', or a square matrix with a row per client.")
        given = torch.tensor(self.relations, dtype=torch.float64)
        if not torch.equal(given, given.t()):
            k, other = (given != given.t()).nonzero()[0].tolist()
            raise FedloomError(
                f"relations[{k}][{other}]={given[k, other]:g} and relations[{other}][{k}]={given[other, k]:g}: "
                "relations are mutual, so the matrix must be symmetric."
            )
        if not bool((given >= 0).all()):
            raise FedloomError(f"relations hold {given.min():g}: they must not be negative.")

    def check(self, task: Task, work: LocalWork) -> None:
        clients = task.federation.clients
        if not isinstance(self.relations, str) and len(self.relations) != clients:
            raise FedloomError(
                f"relations has {len(self.relations)} rows, and the task has {clients} clients: give each client a row."
            )

    def start(self, task: Task) -> State:
        return {"rows": task.initial_row().repeat(task.federation.clients, 1)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message(each={"row": server["rows"][torch.tensor(ids)]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        return Reply({"row": cohort.train(message["row"])})

    def aggregate(self, server: State, replies: Replies) -> State:
        ids, rows = torch.tensor(replies.ids), replies["row"]
        related = self._related(ids, len(server["rows"]), replies.context).fill_diagonal_(0)
        degrees = related.sum(1)
        if self.strength * degrees.max() > 1 + 1e-6:
            raise Stopped(
                f"strength={self.strength:g}: relations of a client to the others of round {replies.context.round} sum "
                f"to {degrees.max():.4g}, which throws its model past theirs; use at most {1 / degrees.max():.3g}."
            )
        laplacian = degrees.diag() - related
        return {"rows": server["rows"].index_copy(0, ids, rows - self.strength * (laplacian @ rows))}

    def _related(self, ids: Tensor, clients: int, context: ServerContext) -> Tensor:
        """The relations of some clients to each other, the same in every round."""
        if self.relations == "full":
            return torch.ones(len(ids), len(ids))
        if self.relations == "random":
            drawn = torch.rand(clients, clients, generator=generator(context.seed, "relations"))[ids][:, ids]
            mutual = (drawn + drawn.t()) / 2
            return torch.where(mutual < UNRELATED, 0.0, mutual)
        return torch.tensor(self.relations)[ids][:, ids]


@dataclass(frozen=True)
class Ditto(FedAvg):
    """FedAvg, and beside it a personal model ``v`` per client that minimises ``F_k(v) + lam/2 * ||v - w||^2``.

    Li, Hu, Beirami and Smith, Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021. v stays
    with its client, which predicts with it; it begins as the first w that the client receives. Each round it is trained
    for ``personal_epochs`` (left out: as long as w is). The shared model is FedAvg's to the byte.
    """

    personal: ClassVar[bool] = True

    lam: float = 0.1
    personal_epochs: int | None = None

    def __post_init__(self) -> None:
        if not self.lam >= 0:
            raise FedloomError(f"lam={self.lam}: the pull towards the shared model must not be negative.")
        if self.personal_epochs is not None and self.personal_epochs < 1:
            raise FedloomError(f"personal_epochs={self.personal_epochs}: train the personal model at least once.")

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        received, work = cohort.spread(message["row"]), cohort.setting.work
        shared = super().client_update(cohort, message)
        if self.personal_epochs is not None:
            work = replace(work, epochs=self.personal_epochs, steps=None)
        towards = Affine(lambda v, _, w: self.lam * (v - w))
        v = cohort.train(self.weights_for(message, cohort), work=work, pull=Affine(towards), given={"w": received})
        cohort.keep("v", v)
        return shared

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return cohort.kept("v", cohort.spread(message["row"]))
