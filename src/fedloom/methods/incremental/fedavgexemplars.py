"""FedAvg with exemplars: clients train on their own samples and on a few of every earlier class.

When new classes come (``task.stream``), the server chooses exemplars of the earlier ones among the communal samples, by
herding on the features of the shared model (``herding.py``); clients join them to their own samples in local training:
``w_k <- train(w)`` on both, ``w <- sum_k p_k w_k``. The memory is constant: a communal sample of an earlier task that
was not chosen then, or was dropped since, does not come back.
Without a stream this is FedAvg. It is iCaRL's memory without its other half, which distils the old model's outputs and
classifies by the nearest mean: Rebuffi et al., CVPR 2017, https://arxiv.org/abs/1611.07725.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Statistic
from fedloom.core.facts import Fact
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply, Wave
from fedloom.core.network import Network
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Count
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.incremental.herding import exemplars as select_exemplars
from fedloom.methods.incremental.herding import require_exemplar_per_class
from fedloom.methods.requirements import require_communal, require_features, require_labels_of_communal


def head_inputs(net: Network, x: Inputs, places: Tensor) -> Mapping[str, Tensor]:  # noqa: ARG001
    """What the head of a network sees of some samples.

    Args:
        x: Prepared inputs.
        places: The samples' places.
    """
    return {"features": net.features(x).flatten(1)}


@dataclass(frozen=True)
class FedAvgExemplars(FedAvg):
    """FedAvg whose clients also train on exemplars of the classes of earlier tasks.

    Args:
        exemplars: How many there are in all, equally many of each earlier class.
    """

    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_MEANS,)
    receives: ClassVar[Declared] = {
        **Algorithm.receives,
        "samples": Statistic("which communal samples are exemplars of earlier tasks"),
    }

    exemplars: Count = 200

    def check(self, task: Task, work: LocalWork) -> None:
        require_communal("fedavgexemplars", task)
        if task.federation.seen is not None:
            require_features("fedavgexemplars", task)
            require_exemplar_per_class(self.exemplars, task)
        require_labels_of_communal("fedavgexemplars", task)

    def start(self, task: Task) -> State:
        nothing = torch.zeros(0, dtype=torch.int64)
        return {"row": task.initial_row(), "samples": nothing.int(), "positions": nothing, "seen": nothing}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({"row": server["row"], "samples": server["samples"]})

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        server = self._begin_task(server, context)
        replies = yield Wave(ids, self.broadcast(server, ids))
        return {**server, "row": replies.mean("row")}

    def _begin_task(self, server: State, context: ServerContext) -> State:
        """The state with exemplars of all classes before those that are new, if a task begins."""
        seen, communal = context.task.federation.seen, context.task.federation.communal
        before = server["seen"]
        if seen is None or len(seen) == len(before):
            return server
        begun = {**server, "seen": seen}
        if len(before):
            labels, old = context.task.targets(communal), server["positions"]
            fresh = ~torch.isin(labels, context.task.targets(old))
            places = (torch.isin(labels, before) & (fresh | torch.isin(communal, old))).nonzero().flatten()
            features = context.collect(server["row"], communal[places], head_inputs)["features"]
            chosen = places[select_exemplars(features, labels[places], self.exemplars)]
            begun |= {"samples": chosen.int(), "positions": communal[chosen]}
        return begun

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        also = cohort.task.federation.communal[message["samples"].long()]
        rows = cohort.train(cohort.spread(message["row"]), also=also if len(also) else None)
        return Reply({"row": rows})
