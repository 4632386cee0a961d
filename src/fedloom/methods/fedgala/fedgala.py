"""Fed-GALA: clients with overlapping graphs learn structure first, then add edges together, then learn the task.

- Phase 1: the loss ``(L_autoencoder + L_task) / 2`` instead of ``L_task``, until clients stop improving or half of the
  rounds are over.
- Phase 2, once: anchors (nodes that several clients hold) get the mean of their owners' embeddings, and each client
  joins each anchor to the local node nearest to that mean.
- Phase 3: the task's loss on the new graphs, again until clients stop improving.

Models are averaged, ``w <- sum_k p_k w_k``, by labels times nodes, normalised.

Tavakoli 2023 (a thesis; no public link known). Where we differ from its text: phase 1 has a limit, since without one
phase 3 might get no round; see also ``anchors``, ``autoencoder`` and ``fedavgexit``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept, Scalar, Statistic
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply, Wave
from fedloom.core.network import Loss, Network
from fedloom.core.seeds import generator
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import NonNegative
from fedloom.core.task import Task
from fedloom.methods.fedavgexit import FedAvgExit
from fedloom.methods.fedgala.anchors import anchor_edges, anchor_means, match_hashes, nearest_nodes, refuse_other_salts
from fedloom.methods.fedgala.autoencoder import reconstruction, sample_non_edges
from fedloom.methods.fedgala.client_graphs import ClientGraphs, HoldsGraphs

log = logging.getLogger("fedloom")
STRUCTURE, TASK = 0, 1
"""The phases in which clients train."""
MODEL, CHOSEN, ANCHORS = "gala/row", "gala/chosen", "gala/anchors"
"""What a client keeps: its last model of phase 1, the node that each of its anchors is joined to, and in a deployment
which of its nodes are anchors."""


@dataclass(frozen=True)
class FedGala(FedAvgExit):
    """Graph autoencoder loss first, then new edges from shared anchors, then the task.

    Args:
        tolerance: A client leaves phase 3 when its loss changed by less than this (the thesis' alpha_3).
        weights: As in FedAvgExit.
        first_tolerance: The same for phase 1 (the thesis' alpha_1).
        augment: What anchors are joined by: ``anchors`` (the mean over all owners), ``own`` (the client's own
            embedding: Max-Augment; nothing is sent), or ``none`` (No-Augment).
    """

    needs: ClassVar[Facts] = {
        Fact.GRAPHS: "learns from nodes that clients' graphs share: use it with cora, citeseer, pubmed or a graph of "
        "your own"
    }
    breaks: ClassVar[Facts] = {
        Fact.ANY_LENGTH: "divides its rounds into phases",
        Fact.ONE_STEP: "has its own local steps",
    }
    receives: ClassVar[Declared] = {
        **FedAvgExit.receives,
        "phase": Scalar("the current phase of the method"),
        "ask": Scalar("asks for the embeddings of shared nodes"),
        "draw": Scalar("asks to join shared nodes to others"),
        "anchors": Statistic("mean embeddings of nodes that sites share"),
        "match": Scalar("asks for salted hashes of node ids; the largest number of nodes of a site"),
        "shared": Statistic("which of the site's nodes another site has too"),
    }
    sends: ClassVar[Declared] = {
        **FedAvgExit.sends,
        "anchors": Statistic("its embeddings of nodes that sites share", single=True),
        "hashes": Statistic("salted hashes of the ids of its nodes", single=True, refuse=refuse_other_salts),
    }
    keeps: ClassVar[Kept] = {
        **FedAvgExit.keeps,
        "gala/row": "the model that the site trained last",
        "gala/chosen": "the edges that the site drew into its graph",
        "gala/anchors": "which of its nodes another site has too",
    }
    weights: Literal["samples", "samples-points"] = "samples-points"
    first_tolerance: NonNegative = 1e-3
    augment: Literal["anchors", "own", "none"] = "anchors"

    @property
    def turns(self) -> int:  # type: ignore[override]  # training; then hashes, embeddings and edges, once in the run
        return {"none": 1, "own": 3, "anchors": 4}[self.augment]

    def check(self, task: Task, work: LocalWork) -> None:
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
        yield from self.add_edges(context, [client for client in context.clients if server["seen"][client]])
        nobody = torch.zeros_like(server["left"])
        return {
            **server,
            **self.task_phase_state(server),
            "phase": torch.tensor(TASK),
            "left": nobody,
            "over": torch.tensor(False),
        }

    def task_phase_state(self, server: State) -> State:
        """The part of the state that starts again with phase 3."""
        return {}

    def add_edges(self, context: ServerContext, ids: list[int]) -> Round:
        """Phase 2: clients send their anchors' embeddings, the server their means, and clients add edges."""
        if self.augment == "none":
            return {}
        graphs, shared, turn = graphs_of(context.task), dict[str, Tensor](), 0
        anchor_ids = graphs.anchor_ids
        if graphs.id_hashes is not None:
            most = torch.as_tensor(context.task.federation.points).max()
            replies = yield Wave(ids, Message({"match": most}), turn=1)
            table, found = match_hashes(replies["hashes"])
            ids, turn, shared = replies.ids, 1, {"shared": table}
            for client, some in zip(ids, found, strict=True):
                if not len(some):
                    name = context.task.federation.name(client)
                    log.warning("client %s has no node that another client has, so it gets no new edges", name)
            anchor_ids = [found[ids.index(client)] if client in ids else table[:0] for client in context.clients]
        if self.augment == "anchors":
            replies = yield Wave(ids, Message({"ask": torch.tensor(True)}, shared), turn=turn + 1)
            means = anchor_means(replies["anchors"], [anchor_ids[client] for client in replies.ids])
            ids, turn, shared = replies.ids, turn + 1, {"anchors": means}
        yield Wave(ids, Message({"draw": torch.tensor(True)}, shared), turn=turn + 1)
        return {}

    # -- the clients' half

    def prepare_cohort(self, cohort: Cohort) -> None:
        graphs = graphs_of(cohort.task)
        if cohort.task.federation.clients != graphs.clients:
            return  # centralised training: no client's own graph
        if CHOSEN not in cohort.kept and graphs.id_hashes is not None:
            return  # its anchors are not known yet
        chosen = cohort.kept_rows(CHOSEN, torch.full((len(cohort), graphs.most_anchors), -1))
        for place, client in enumerate(cohort.ids):
            anchors = self.anchors(cohort, place)
            graphs.augment(client, anchor_edges(anchors, chosen[place, : len(anchors)]))

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        if "match" in message:
            return self.hash_ids(cohort, int(message["match"]))
        if "shared" in message:
            cohort.keep(ANCHORS, message["shared"])
        if "ask" in message:
            return self.embed_anchors(cohort)
        if "draw" in message:
            return self.join_anchors(cohort, message)
        reply = super().client_update(cohort, message)
        if self.phase(message) == STRUCTURE:
            cohort.keep(MODEL, reply.tensors["row"])
        return reply

    def hash_ids(self, cohort: Cohort, most: int) -> Reply:
        """The hashes of the ids of the clients' nodes, as many entries for everyone."""
        hashes = graphs_of(cohort.task).id_hashes
        if hashes is None:
            raise FedloomError(f"the nodes of task {cohort.task.name} have no ids that could be hashed.")
        rows, mine = torch.full((len(cohort), most + 1), -1), [hashes[client][: most + 1] for client in cohort.ids]
        for place, some in enumerate(mine):
            rows[place, : len(some)] = some
        return Reply({"hashes": rows}, bytes=torch.tensor([some.nbytes for some in mine]))

    def anchors(self, cohort: Cohort, place: int) -> Tensor:
        """The local numbers of a client's anchors: as the task says, or as the server found by hashes."""
        graphs = graphs_of(cohort.task)
        if graphs.id_hashes is None:
            return graphs.anchors[cohort.ids[place]]
        mine = cohort.kept[ANCHORS].rows[place]
        return mine[mine >= 0]

    def most_anchors(self, cohort: Cohort) -> int:
        """How many anchors the client with the most of them has."""
        graphs = graphs_of(cohort.task)
        return graphs.most_anchors if graphs.id_hashes is None else cohort.kept[ANCHORS].rows.shape[1]

    def embed_anchors(self, cohort: Cohort) -> Reply:
        """The embeddings of the clients' anchors under their own last models."""
        embeddings = torch.zeros(len(cohort), self.most_anchors(cohort), cohort.task.federation.classes)
        anchors = [self.anchors(cohort, place) for place in range(len(cohort))]
        for place, mine in enumerate(anchors):
            embeddings[place, : len(mine)] = self.node_embeddings(cohort, place)[mine]
        sizes = torch.tensor([len(mine) for mine in anchors])
        return Reply({"anchors": embeddings}, bytes=sizes * embeddings.shape[2] * embeddings.element_size())

    def join_anchors(self, cohort: Cohort, message: Message) -> Reply:
        """Join each anchor to the node nearest to its mean embedding, or to its own."""
        graphs = graphs_of(cohort.task)
        chosen = torch.full((len(cohort), self.most_anchors(cohort)), -1)
        for place, client in enumerate(cohort.ids):
            anchors, z = self.anchors(cohort, place), self.node_embeddings(cohort, place)
            targets = message["anchors"][place, : len(anchors)] if "anchors" in message else z[anchors]
            chosen[place, : len(anchors)] = nearest_nodes(graphs.graph(client), anchors, z, targets)
        cohort.keep(CHOSEN, chosen)
        return Reply({})

    def node_embeddings(self, cohort: Cohort, place: int) -> Tensor:
        """The embeddings of all nodes of a client's graph under its last model of phase 1, without dropout."""
        graphs, rows = graphs_of(cohort.task), cohort.kept[MODEL].rows
        return cohort.forward(rows[place : place + 1], graphs.positions(cohort.ids[place]))[0]

    def loss(self, message: Message) -> Loss | None:
        return structure_loss if self.phase(message) == STRUCTURE else None

    def losses(self, cohort: Cohort, rows: Tensor, message: Message) -> Tensor:
        if self.phase(message) == TASK:
            return super().losses(cohort, rows, message)
        task, graphs, losses = cohort.task, graphs_of(cohort.task), torch.zeros(len(cohort))
        for place, client in enumerate(cohort.ids):
            graph, labels_at = graphs.graph(client), task.federation.train[client]
            z = cohort.forward(rows[place : place + 1], graphs.positions(client))[0]
            others = sample_non_edges(
                graph, generator(cohort.setting.seed, "strangers", client)
            )  # the same in every round
            classified = F.cross_entropy(z[labels_at - graphs.offsets[client]], task.targets(labels_at))
            losses[place] = (classified + reconstruction(z, graph.edges, others)) / 2
        return losses


def structure_loss(net: Network, x: Tensor, y: Tensor, _: Mapping[str, Mapping[str, Tensor]]) -> tuple[Tensor, Tensor]:
    """Phase 1: half the cross-entropy of the labelled nodes, half the autoencoder's loss of the client's graph."""
    graphs: ClientGraphs = net.model.graphs  # type: ignore[assignment]
    block = graphs.block_of(x)
    graph = graphs.graph(block)
    z = net(graphs.positions(block))
    structure = reconstruction(z, graph.edges, sample_non_edges(graph))
    classified = F.cross_entropy(z[x - graphs.offsets[block]], y, reduction="none")
    return (classified + structure) / 2, torch.ones(len(y))


def graphs_of(task: Task) -> ClientGraphs:
    """The graphs of a task's clients."""
    if not isinstance(task.federation, HoldsGraphs):
        raise FedloomError(f"task {task.name} has no graphs.")
    return task.federation.graphs
