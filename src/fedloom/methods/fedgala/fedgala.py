"""Fed-GALA: clients whose graphs overlap learn structure first, then draw new edges together, then learn the task.

Tavakoli 2023. Phase 1: a combined loss, half graph autoencoder, half cross-entropy, until clients stop improving (or
half of the rounds are over: the thesis has no such limit, and phase 3 might get none). Phase 2, once: anchors (nodes
that several clients hold) get the mean of their owners' embeddings, and each client joins each anchor to the local
node that is nearest to it. Phase 3: the task's loss on the augmented graphs, again until clients stop. Models are
averaged by labels times nodes, normalised. Fed-GALAp holds clients near the received model, with an adaptive mu.

Where we differ from the thesis' text: see ``graphs.anchors``, ``graphs.autoencoder`` and ``algorithms.exits``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply, Wave
from fedloom.core.network import Loss, Network
from fedloom.core.seeds import generator
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task
from fedloom.methods.fedavgexit import FedAvgExit
from fedloom.methods.fedgala.anchors import anchor_means, joined, nearest
from fedloom.methods.fedgala.autoencoder import reconstruction, strangers
from fedloom.models.graph import Graphs

STRUCTURE, TASK = 0, 1
"""The phases in which clients train."""
MODEL, CHOSEN = "gala/row", "gala/chosen"
"""What a client keeps: the model it trained last in phase 1, and the node that it joined each of its anchors to."""


@dataclass(frozen=True)
class FedGala(FedAvgExit):
    """Graph autoencoder loss first, then edges from shared anchors, then the task. Tavakoli 2023.

    ``first_tolerance`` is the thesis' alpha_1, ``tolerance`` its alpha_3. ``augment`` says what anchors are joined by:
    ``anchors`` (the mean over all owners), ``own`` (the client's own embedding: Max-Augment; nothing is sent), ``none``
    (No-Augment).
    """

    on_graphs: ClassVar[bool] = True
    weights: Literal["samples", "samples-points"] = "samples-points"
    first_tolerance: float = 1e-3
    augment: Literal["anchors", "own", "none"] = "anchors"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.first_tolerance >= 0:
            raise FedloomError(f"first_tolerance={self.first_tolerance}: a change of loss is not negative.")

    @property
    def compiles(self) -> bool:
        return False

    def check(self, task: Task, work: LocalWork) -> None:
        if graphs_of(task) is None:
            raise FedloomError(
                f"{type(self).__name__.lower()} learns from nodes that clients' graphs share, and task {task.name} has "
                "no graphs: use it with cora, citeseer, pubmed or a graph of your own."
            )
        if work.batch_size:
            raise FedloomError(
                f"batch_size={work.batch_size}: the autoencoder's loss is of a client's whole graph; use batch_size=0."
            )

    def start(self, task: Task) -> State:
        return {**super().start(task), "phase": torch.tensor(STRUCTURE)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({**super().broadcast(server, ids).shared, "phase": server["phase"]})

    def phase(self, message: Message) -> int:
        return int(message["phase"])

    def tolerance_in(self, message: Message) -> float:
        return self.tolerance if self.phase(message) == TASK else self.first_tolerance

    # -- the server's half

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        server = yield from super().play(server, ids, context)
        if int(server["phase"]) == TASK or not (server["over"] or context.round >= context.rounds // 2):
            return server
        yield from self.augmented(context, [client for client in context.clients if server["seen"][client]])
        nobody = torch.zeros_like(server["left"])
        return {**server, **self.begun(), "phase": torch.tensor(TASK), "left": nobody, "over": torch.tensor(False)}

    def begun(self) -> State:
        """What begins anew with the task's phase."""
        return {}

    def augmented(self, context: ServerContext, ids: list[int]) -> Round:
        """Phase 2: embeddings of anchors come up, their means go down, clients draw their edges."""
        if self.augment == "own":
            yield Wave(ids, Message({"draw": torch.tensor(True)}), turn=1)
        if self.augment == "anchors":
            replies = yield Wave(ids, Message({"ask": torch.tensor(True)}), turn=1)
            graphs, ids = _graphs(context.task), replies.ids
            means = anchor_means(replies["anchors"], [graphs.anchor_ids[client] for client in ids])
            yield Wave(ids, Message({"draw": torch.tensor(True)}, {"anchors": means}), turn=2)
        return {}

    # -- the clients' half

    def prepare_cohort(self, cohort: Cohort) -> None:
        graphs = _graphs(cohort.task)
        if cohort.task.federation.clients != graphs.clients:
            return  # centralised: nobody's own graph
        chosen = cohort.kept_rows(CHOSEN, torch.full((len(cohort), graphs.most_anchors), -1))
        for client, mine in zip(cohort.ids, chosen, strict=True):
            anchors = graphs.anchors[client]
            graphs.augment(client, joined(anchors, mine[: len(anchors)]))

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        if "ask" in message:
            return self.told(cohort)
        if "draw" in message:
            return self.drawn(cohort, message)
        reply = super().client_update(cohort, message)
        if self.phase(message) == STRUCTURE:
            cohort.keep(MODEL, reply.tensors["row"])
        return reply

    def told(self, cohort: Cohort) -> Reply:
        """The embeddings of the clients' anchors under their own last models."""
        graphs = _graphs(cohort.task)
        told = torch.zeros(len(cohort), graphs.most_anchors, cohort.task.federation.classes)
        for place, client in enumerate(cohort.ids):
            told[place, : len(graphs.anchors[client])] = self.embedded(cohort, place)[graphs.anchors[client]]
        sizes = torch.tensor([len(graphs.anchors[client]) for client in cohort.ids])
        return Reply({"anchors": told}, bytes=sizes * told.shape[2] * told.element_size())

    def drawn(self, cohort: Cohort, message: Message) -> Reply:
        """New edges from anchors to the nodes nearest to what is known of them."""
        graphs = _graphs(cohort.task)
        chosen = torch.full((len(cohort), graphs.most_anchors), -1)
        for place, client in enumerate(cohort.ids):
            anchors, z = graphs.anchors[client], self.embedded(cohort, place)
            about = message["anchors"][place, : len(anchors)] if "anchors" in message else z[anchors]
            chosen[place, : len(anchors)] = nearest(graphs.graph(client), anchors, z, about)
        cohort.keep(CHOSEN, chosen)
        return Reply({})

    def embedded(self, cohort: Cohort, place: int) -> Tensor:
        """What a client's own last model makes of all nodes of its graph, without dropout."""
        graphs, rows = _graphs(cohort.task), cohort.state[MODEL]
        return cohort.forward(rows[place : place + 1], graphs.positions(cohort.ids[place]))[0]

    def loss(self, message: Message) -> Loss | None:
        return combined if self.phase(message) == STRUCTURE else None

    def losses(self, cohort: Cohort, rows: Tensor, message: Message) -> Tensor:
        if self.phase(message) == TASK:
            return super().losses(cohort, rows, message)
        task, graphs, found = cohort.task, _graphs(cohort.task), torch.zeros(len(cohort))
        for place, client in enumerate(cohort.ids):
            graph, labelled = graphs.graph(client), task.federation.train[client]
            z = cohort.forward(rows[place : place + 1], graphs.positions(client))[0]
            others = strangers(graph, generator(cohort.setting.seed, "strangers", client))  # the same in every round
            classified = F.cross_entropy(z[labelled - graphs.offsets[client]], task.targets(labelled))
            found[place] = (classified + reconstruction(z, graph.edges, others)) / 2
        return found


def combined(net: Network, x: Tensor, y: Tensor, _: Mapping[str, Mapping[str, Tensor]]) -> tuple[Tensor, Tensor]:
    """Phase 1: half the cross-entropy of the labelled nodes, half the autoencoder's loss of the client's graph."""
    graphs: Graphs = net.model.graphs  # type: ignore[assignment]
    block = graphs.block_of(x)
    graph = graphs.graph(block)
    z = net(graphs.positions(block))
    rebuilt = reconstruction(z, graph.edges, strangers(graph))
    classified = F.cross_entropy(z[x - graphs.offsets[block]], y, reduction="none")
    return (classified + rebuilt) / 2, torch.ones(len(y))


def graphs_of(task: Task) -> Graphs | None:
    """The graphs that a task's clients hold, if they do."""
    found: Graphs | None = getattr(task.federation, "graphs", None)
    return found


def _graphs(task: Task) -> Graphs:
    found = graphs_of(task)
    if found is None:
        raise FedloomError(f"task {task.name} has no graphs.")
    return found
