"""The size from which a client is better off with a model of its own: where local accuracy overtakes shared accuracy.

The hybrids' authors found their 2,200 samples by eye, where the validation accuracy of local training overtakes that of
the shared model (mean of the last five rounds). Here all clients probe for a few rounds: the shared model is trained as
in FedAvg, every client also trains alone for as long, and the threshold is the cut that gives the clients the most
validation accuracy if those above it use their own model and the others the shared one. Only the threshold and the
curve stay: the run then starts from the initial row as without a probe.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Model, Scalar
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, Reply, Wave
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task

log = logging.getLogger("fedloom")
LAST = 5
"""Accuracies are means over this many of the last rounds, or over all if there are fewer."""


@dataclass(frozen=True)
class SizeCurve:
    """Local and shared accuracy of each client, by increasing size, and the threshold that follows."""

    threshold: float
    sizes: Tensor
    local: Tensor
    shared: Tensor


THRESHOLD = Scalar("the number of samples from which a site is large")
PROBE = Scalar("how long a site trains alone")
PROBE_REPLIES: Declared = {
    "probed": Model("the model that the site trained for the probe", of="row"),
    "shared": Scalar("the shared model's accuracy, own valid. part", single=True),
    "local": Scalar("accuracy of a model trained alone", single=True),
    "size": Scalar("number of its samples in all parts", single=True, counts=True),
    "points": Scalar("number of its validation samples", single=True, counts=True),
}


def check_probe(task: Task) -> None:
    """Refuse a task on which no threshold can be measured."""
    if task.objective.score != "accuracy":
        raise FedloomError(
            f"threshold=auto compares accuracies, but this task is scored by {task.score_name}: give a number."
        )
    if not int(task.federation.valid.sizes.sum()):
        raise FedloomError(
            "threshold=auto is measured on validation data, but no client has any: set task.valid_share, for "
            "instance to 0.1, or give the threshold as a number."
        )


def measure_threshold(server: State, context: ServerContext, rounds: int) -> Round:
    """The server's half: ``rounds`` waves of FedAvg, one wave to compare, and the state with threshold and curve."""
    row, clients, accuracies = server["row"], list(context.clients), list[Tensor]()
    for turn in range(rounds + 1):
        probe = torch.tensor(rounds if turn == rounds else 0)
        replies = yield Wave(clients, Message({"row": row, "probe": probe}), turn)
        answered = torch.isin(torch.tensor(clients), torch.tensor(replies.ids))
        clients, accuracies = replies.ids, [earlier[answered] for earlier in accuracies]
        if turn < rounds:
            row = replies.mean("probed")
            accuracies.append(replies["shared"])
    shared = torch.stack([*accuracies[1:], replies["shared"]])[-LAST:].mean(0)  # the first is that of the initial model
    curve = torch.stack([replies["size"], replies["local"], shared])[:, replies["points"] > 0]
    curve = curve[:, curve[0].argsort(stable=True)]
    threshold = crossover(*curve)
    log.info("threshold: %g of %g points (size, local, shared: %s)", threshold, curve[0, -1], curve.T.tolist())
    return {**server, "threshold": torch.tensor(threshold), "curve": curve}


def probe_clients(cohort: Cohort, message: Message) -> Reply:
    """The clients' half: train the shared model once more; in the last wave train alone for as long, and compare."""
    received, rounds = cohort.spread(message["row"]), int(message["probe"])
    shared = _accuracy(cohort, received)
    if rounds == 0:
        return Reply({"probed": cohort.train(received), "shared": shared})
    rows, accuracies = cohort.spread(cohort.task.initial_row()), []
    for _ in range(rounds):
        rows = cohort.train(rows)
        accuracies.append(_accuracy(cohort, rows))
    points = cohort.task.federation.valid.sizes[torch.tensor(cohort.ids)]
    local = torch.stack(accuracies[-LAST:]).mean(0)
    return Reply({"shared": shared, "local": local, "size": cohort.points.float(), "points": points.int()})


def _accuracy(cohort: Cohort, rows: Tensor) -> Tensor:
    """Accuracy on each client's own validation part; 0 for a client without one, which is left out later."""
    return cohort.evaluate(rows, "valid").mean_score.nan_to_num().float()


def crossover(sizes: Tensor, local: Tensor, shared: Tensor) -> float:
    """The threshold with the largest sum of ``local`` (for clients above it) and ``shared`` (for the others).

    All cuts between two sizes are candidates, and so are "all local" (0) and "all shared" (the largest size). Of
    equally good ones the largest wins: a client without a gain should not leave the shared model.
    """
    cuts = torch.cat([torch.zeros(1), sizes])
    small = sizes <= cuts[:, None]
    sums = torch.where(small, shared, local).double().sum(1)
    return float(cuts[sums == sums.max()].max())


def curve_of(server: State) -> SizeCurve:
    """The curve that ``threshold="auto"`` measured.

    Args:
        server: The server's state of a run, in memory or from its checkpoint.
    """
    if "curve" not in server:
        raise FedloomError('this run has no size curve: only a hybrid with threshold="auto" measures one.')
    sizes, local, shared = server["curve"]
    return SizeCurve(float(server["threshold"]), sizes, local, shared)
