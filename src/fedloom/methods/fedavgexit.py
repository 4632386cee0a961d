"""FedAvgExit: FedAvg whose clients leave when they have converged, as the Fed-GALA study runs it.

A client leaves when ``|loss - its last loss| < tolerance``; its last model stays with the server and in the average
``w <- sum_k p_k w_k``; a run ends when all clients have left. With ``tolerance = 0`` nobody leaves, and this is FedAvg.

Tavakoli 2023 (Fed-GALA, a thesis; no public link known), section 3. Where we differ: the thesis leaves the loss open;
here it is that of the model a client just trained, without dropout, whose noise would keep clients from ever leaving.
The proposed weights (labels times nodes) are normalised: as printed they do not sum to one, and each round would shrink
the model to about 1/K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept, Model, Scalar
from fedloom.core.message import Message, Replies, Reply, Wave
from fedloom.core.network import Loss
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import NonNegative
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class FedAvgExit(FedAvg):
    """FedAvg whose clients leave when their training loss stands still; their last models stay in the average.

    Args:
        tolerance: A client leaves when its training loss changed by less than this since its last round.
        weights: What models are averaged by: ``samples`` (labelled ones, the baseline's) or ``samples-points`` (times
            all samples of the client: its nodes; the thesis' proposal, normalised).
    """

    sends: ClassVar[Declared] = {
        "row": Model("the model that the site trained", single=True),
        "loss": Scalar("mean loss on its training part"),
        "leaves": Scalar("whether the site has converged", single=True),
    }
    keeps: ClassVar[Kept] = {"exit": "the loss by which the site sees whether it has converged"}

    tolerance: NonNegative = 1e-4
    weights: Literal["samples", "samples-points"] = "samples"

    def start(self, task: Task) -> State:
        clients, row = task.federation.clients, task.initial_row()
        models, nobody = row.expand(clients, -1).clone(), torch.zeros(clients, dtype=torch.bool)
        return {"row": row, "models": models, "seen": nobody, "left": nobody, "over": torch.tensor(False)}

    def is_finished(self, server: State) -> bool:
        return bool(server["over"])

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        staying = [client for client in ids if not server["left"][client]]
        if staying:
            replies = yield Wave(staying, self.broadcast(server, staying))
            server = self.aggregate(server, replies)
        return {**server, "over": server["left"][torch.tensor(context.clients)].all()}

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        rows = self.train(cohort, message)
        loss, name = self.losses(cohort, rows, message), f"exit/{self.phase(message)}"
        before = cohort.kept_rows(name, torch.full_like(loss, torch.inf))
        cohort.keep(name, loss)
        return Reply({"row": rows, "loss": loss, "leaves": (loss - before).abs() < self.tolerance_in(message)})

    def train(self, cohort: Cohort, message: Message) -> Tensor:
        """The rows after local training."""
        return cohort.train(cohort.spread(message["row"]), loss=self.loss(message))

    def loss(self, message: Message) -> Loss | None:
        """The loss that clients minimise; None is the task's own."""
        return None

    def losses(self, cohort: Cohort, rows: Tensor, message: Message) -> Tensor:
        """The loss that tells a client whether it has converged."""
        return cohort.evaluate(rows, "train").mean_loss.float()

    def phase(self, message: Message) -> int:
        """The phase of the method; losses are compared only within one."""
        return 0

    def tolerance_in(self, message: Message) -> float:
        """The change of loss below which a client leaves."""
        return self.tolerance

    def aggregate(self, server: State, replies: Replies) -> State:
        ids = torch.tensor(replies.ids)
        models = server["models"].index_copy(0, ids, replies["row"])
        seen = server["seen"].index_fill(0, ids, True)
        left = server["left"].index_copy(0, ids, replies["leaves"])
        omega = self.omega(replies.context)
        known, weights = (models, omega) if seen.all() else (models[seen], omega[seen])
        row = replies.combine(known, weights / weights.sum(), server["row"])
        return {**server, "row": row, "models": models, "seen": seen, "left": left}

    def omega(self, context: ServerContext) -> Tensor:
        """The weight of every client of the federation; the thesis' s_k n_k, or s_k."""
        labelled, points = context.samples.double(), context.task.federation.points
        return (labelled * points if self.weights == "samples-points" else labelled).float()
