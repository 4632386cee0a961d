"""Claims about methods on overlapping graphs: the average and the new edges, recomputed client by client."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedloom.conformance.claim import Claim
from fedloom.conformance.overlapping_task import CLIENTS, overlapping_task
from fedloom.conformance.run_method import MethodRun, run_method
from fedloom.core.algorithm import Algorithm
from fedloom.methods.fedgala.fedgala import CHOSEN, FedGala
from fedloom.tasks.graphs.federation import GraphFederation

WORK: dict[str, Any] = {"epochs": 3, "batch_size": 0, "optimizer": "adam", "lr": 0.01}


def _run_gala(method: Algorithm, rounds: int, of: int) -> MethodRun:
    if not isinstance(method, FedGala):
        raise KeyError("only methods with Fed-GALA's phases can be checked for them")
    return run_method(overlapping_task(), replace(method, tolerance=0.0, first_tolerance=0.0), rounds, WORK, rounds=of)


def to_labels_times_nodes(method: Algorithm) -> float:
    """The distance of the shared model from the mean of all last models, weighted by labels times nodes."""
    end = _run_gala(method, 4, 4)
    federation = end.run.task.federation
    weights = (federation.train.sizes * federation.points).double()
    wanted = (weights / weights.sum()) @ end.state.server["models"].double()
    return float((end.row - wanted).norm() / wanted.norm())


def from_nearest(method: Algorithm) -> float:
    """The number of anchors not joined to the node nearest to the mean of their owners' embeddings."""
    end = _run_gala(method, 1, 2)  # phase 1 has one round; the edges are added at its end
    task, models = end.run.task, end.state.server["models"]
    federation = task.federation
    assert isinstance(federation, GraphFederation)  # noqa: S101
    pieces, embedded = [federation.graphs.original(client) for client in range(CLIENTS)], []
    by_node: dict[int, list[Tensor]] = {}
    for client, model in enumerate(models):
        task.layout.fill(task.model, model)
        with torch.no_grad():
            embedded.append(task.model.eval()(federation.graphs.positions(client)).double())
        for anchor in federation.graphs.anchors[client].tolist():
            by_node.setdefault(int(pieces[client].nodes[anchor]), []).append(embedded[client][anchor])
    wrong = 0
    for client, piece in enumerate(pieces):
        known = {frozenset(pair) for pair in piece.edges.t().tolist()}
        for place, anchor in enumerate(federation.graphs.anchors[client].tolist()):
            mean = torch.stack(by_node[int(piece.nodes[anchor])]).mean(0)
            free = [node for node in range(len(piece)) if node != anchor and frozenset((node, anchor)) not in known]
            best = max(free, key=lambda node: float(mean @ embedded[client][node]))
            wrong += int(end.state.client_states.rows[CHOSEN][client, place]) != best
    return float(wrong)


_CLAIMS = (
    Claim("averages all last models by labels times nodes, normalised", to_labels_times_nodes, within=1e-5),
    Claim("joins anchors to the nodes nearest to their owners' mean embedding", from_nearest, within=0.0),
)
GRAPHS: dict[str, tuple[Claim, ...]] = {"fedgala": _CLAIMS, "fedgalap": _CLAIMS}
