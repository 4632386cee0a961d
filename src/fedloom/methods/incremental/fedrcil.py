"""FedRCIL: multi-scale distillation on exemplars, with a contrast that keeps what earlier tasks taught.

Clients meet the classes task by task (``task.stream``). A round is that of ``fld`` (with ``multi_loss=B``): clients
train on their own data and send what their models say of the exemplars; the server takes the mean; clients then
minimise ``l_dis + m_c * l_mul + m_u * l_con`` on the exemplars. ``l_con`` (``retention.py``) holds features near the
anchors of up to ``buffer`` earlier tasks: the means over clients in the last round of each. It is 0 in the first task
and for samples of new classes. Without the exemplars' labels, and with m_u = 0 or without a stream, this is ``fld``
with its multi-loss (the default is ``multi_loss=none``).

The exemplars are the communal samples of all classes so far. With ``exemplars = M`` they are at most M after the first
round of a task, equally many per class, chosen by herding on the mean features when new classes come.

Psaltis, Federated, Multi-agent, Deep Reinforcement Learning (thesis, 2024; no public link known), chapter 7. Features
are what the head sees; the authors' code contrasts the whole map of the last stage. The negative
of equation 7.5 is the anchor of the previous round of this task; here it is that of this round, which clients have
just got to distil. It is one round newer, and it exists in a task's first round too, where the thesis' does not.
**Nothing in the thesis' algorithm 15 keeps old classes**: exemplars are distilled to the mean of models that have just
been trained on new ones. The authors' code also trains on the exemplars' labels, after every local epoch, and so does
this method by default: ``exemplar_epochs`` passes after all local epochs. Without (``exemplar_epochs=0``, as printed)
only the last task is known at the end, and a run says so. Their code distils by mean squared errors
(``distance=mse``). Outputs of classes to come are sent with the others, and are not distilled.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Statistic
from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply, Wave
from fedloom.core.network import Loss, Network
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Count, NonNegative, Positive, WholeNumber
from fedloom.core.task import Task
from fedloom.methods.distillation.fld import FLD
from fedloom.methods.incremental.herding import exemplars as select_exemplars
from fedloom.methods.incremental.herding import require_exemplar_per_class
from fedloom.methods.incremental.retention import retention
from fedloom.methods.requirements import require_equal_features, require_features, require_labels_of_communal

log = logging.getLogger("fedloom")

ABOUT_SAMPLES = ("outputs", "features", "strips", "positions", "samples", "past", "past_known")
"""Tensors of the server's state that have an entry per exemplar."""


@dataclass(frozen=True)
class FedRCIL(FLD):
    """FLD on exemplars that keeps what earlier tasks taught; the thesis' multi-scale method is multi_loss=B.

    Args:
        common: Must stay true: there is a communal set.
        layer: What is distilled: the outputs, or the inputs of the head (``penultimate``).
        multi_loss: How strips of the model's stages are distilled too, as in ``FLD``; the thesis' method has ``B``.
        m_c: The weight of the strips' distance.
        epochs: Passes over the exemplars when clients distil.
        m_u: The weight of the contrast with earlier tasks.
        buffer: How many earlier tasks are remembered.
        tau: The temperature of the contrast.
        exemplars: How many exemplars there are at most; 0 keeps all communal samples.
        exemplar_epochs: Passes over the exemplars and their labels after clients' own training; 0 is as printed.
        distance: What is distilled of each sample: the Euclidean ``norm``, or the mean squared error (``mse``).
    """

    receives: ClassVar[Declared] = {
        "outputs": Statistic("mean outputs of all sites' models for the exemplars"),
        "features": Statistic("mean inputs of the head of all sites' models for the exemplars"),
        "strips": Statistic("mean strips of the stages of all sites' models for the exemplars"),
        "samples": Statistic("which communal samples are exemplars"),
        "past": Statistic("mean features of the exemplars at the end of earlier tasks"),
        "past_known": Statistic("which exemplars earlier tasks had"),
    }
    sends: ClassVar[Declared] = {
        "outputs": Statistic("its model's outputs for the exemplars, which are communal samples", coded=True),
        "features": Statistic("the inputs of its model's head for the exemplars", coded=True),
        "strips": Statistic("the strips of its model's stages for the exemplars", coded=True),
    }

    m_u: NonNegative = 0.5
    buffer: Count = 4
    tau: Positive = 0.5
    exemplars: WholeNumber = 0
    exemplar_epochs: WholeNumber = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.common:
            raise FedloomError("fedrcil distils on exemplars, which are communal samples: leave out common=false.")

    def check(self, task: Task, work: LocalWork) -> None:
        super().check(task, work)
        if self.exemplar_epochs and not task.federation.communal_labelled:
            raise FedloomError(
                f"exemplar_epochs={self.exemplar_epochs} trains on the labels of communal samples, but those of task "
                f"{task.name} have none: set task.communal.labelled = true, or exemplar_epochs=0."
            )
        if self.exemplars:
            require_labels_of_communal("fedrcil", task)
        if task.federation.seen is not None and not self.exemplar_epochs:
            log.warning(
                "fedrcil without the labels of exemplars (exemplar_epochs=0) has nothing that keeps earlier classes: "
                "expect that only those of the last task are known"
            )
        if self.exemplars:
            require_exemplar_per_class(self.exemplars, task)
            if task.federation.seen is None:
                raise FedloomError(
                    f"exemplars={self.exemplars}: they are chosen when new classes come, but task {task.name} has no "
                    "stream: set task.stream, or leave out exemplars."
                )
        if self._looks_back(task):
            for own in task.by_architecture:
                require_features("fedrcil", own)
            require_equal_features("fedrcil", task)

    def _looks_back(self, task: Task) -> bool:
        """Whether features are sent: there are tasks, and they are contrasted or exemplars are chosen by them."""
        return task.federation.seen is not None and (self.m_u > 0 or self.exemplars > 0)

    # -- the server

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        if context.task.federation.seen is not None:
            server = self._begin_task(server, context)
        replies = yield Wave(ids, self.broadcast(server, ids))
        server = self._choose_exemplars(self.aggregate(server, replies), context.task)
        yield Wave(replies.ids, self.lesson(server), turn=1, optional=True)
        return server

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({"samples": server["samples"]}) if "samples" in server else Message()

    def _begin_task(self, server: State, context: ServerContext) -> State:
        """The state with samples of new classes, and the last means as an anchor of the others, if a task begins."""
        task, federation = context.task, context.task.federation
        seen, before = federation.seen, server.get("seen")
        if seen is None or (before is not None and len(before) == len(seen)):
            return server
        old = server.get("positions", federation.communal[:0])
        fresh = federation.communal
        if before is not None:
            fresh = fresh[~torch.isin(fresh, old) & ~torch.isin(task.targets(fresh), before)]
        positions = torch.cat([old, fresh]).sort().values
        begun = {**server, "seen": seen, "positions": positions}
        if self.exemplars:
            begun["samples"] = torch.searchsorted(federation.communal, positions).int()
        if self.m_u and before is not None:  # the first task has no earlier one
            places, last = torch.searchsorted(positions, old), server["features"]
            for name, newest in (("past", last), ("past_known", torch.ones(len(old)))):
                anchors = torch.zeros(len(positions), self.buffer, *newest.shape[1:])
                anchors[places, 0] = newest
                if name in server:
                    anchors[places, 1:] = server[name][:, :-1]
                begun[name] = anchors
        return begun

    def _choose_exemplars(self, server: State, task: Task) -> State:
        """The state of the exemplars only, if there are more samples than exemplars."""
        if not self.exemplars or "samples" not in server or len(server["positions"]) <= self.exemplars:
            return server
        kept = select_exemplars(server["features"], task.targets(server["positions"]), self.exemplars)
        return {name: tensor[kept] if name in ABOUT_SAMPLES else tensor for name, tensor in server.items()}

    # -- the clients

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        samples = message.get("samples")
        if samples is not None:
            federation = cohort.task.federation
            only = federation.with_communal_samples(federation.communal[samples.long()])
            cohort.task = replace(cohort.task, federation=only)
        return super().client_update(cohort, message)

    def learn(self, cohort: Cohort, rows: Tensor) -> Tensor:
        rows = super().learn(cohort, rows)
        if not self.exemplar_epochs:
            return rows
        work = cohort.setting.work.for_epochs(self.exemplar_epochs)
        return cohort.train(rows, work=work, on=self.common_set(cohort))

    def knowledge(self, cohort: Cohort, rows: Tensor) -> dict[str, Tensor]:
        if not self._looks_back(cohort.task):
            return super().knowledge(cohort, rows)

        def look(net: Network, x: Inputs, places: Tensor) -> Mapping[str, Tensor]:
            return {"features": net.features(x).flatten(1), **self.look(net, x, places)}

        return cohort.collect(rows, self.common_set(cohort), look)

    def kd_loss(self, cohort: Cohort, message: Message) -> Loss:
        distilled = super().kd_loss(cohort, message)
        past, known, new = (message.get(name) for name in ("past", "past_known", "features"))
        if past is None or known is None or new is None or not bool(known.any()):
            return distilled

        def loss(net: Network, x: Inputs, y: Tensor, given: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
            apart, counts = distilled(net, x, y, given)
            z = net.at({}).features(x).flatten(1)
            return apart + self.m_u * retention(z, past[y], known[y], new[y], self.tau), counts

        return loss
