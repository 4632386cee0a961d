"""DS-FL: clients and the server distil sharpened mean probabilities on unlabelled communal samples.

Clients train on their own data and send probabilities ``p_k(x) = softmax(f_k(x))`` for the communal samples. The server
sharpens their mean, ``p(x) = softmax(mean_k p_k(x) / temperature)`` (entropy reduction aggregation, ``era``), or takes
it as it is (simple aggregation, ``sa``), and distils it into a model of its own, as clients do into theirs, by the
cross-entropy ``-sum_c p_c log softmax(f(x))_c``.

Itahara, Nishio, Koda, Morikura and Yamamoto, Distillation-Based Semi-Supervised Federated Learning for
Communication-Efficient Collaborative Training with Non-IID Private Data, IEEE TMC 2021,
https://arxiv.org/abs/2008.06180. **Only a temperature below about 1/classes makes a flat mean sharper than it was**,
since the softmax is of probabilities. At 1 it is almost uniform, and at the paper's 0.1 it flattens means over 100
classes. The paper sends another random part of the open data in each round; here it is all of
the communal set. It weights clients alike (``weight_by = "uniform"``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Statistic
from fedloom.core.facts import Fact
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies
from fedloom.core.network import Loss, Network
from fedloom.core.settings import Count, Positive
from fedloom.core.task import Task
from fedloom.methods.distillation.communal_distillation import CommunalDistillation
from fedloom.methods.distillation.soft_targets import soft_cross_entropy
from fedloom.methods.requirements import require_classes


def reduce_entropy(mean: Tensor, temperature: float) -> Tensor:
    """Sharpened probabilities: ``softmax(mean / temperature)``.

    Args:
        mean: Mean probabilities, n×classes.
        temperature: The lower, the sharper; with many classes 0.1 may not sharpen at all.
    """
    return torch.softmax(mean / temperature, dim=1)


@dataclass(frozen=True)
class DSFL(CommunalDistillation):
    """Clients and the server distil the sharpened mean of all models' probabilities for the communal set.

    Args:
        aggregation: ``era`` sharpens the mean, ``sa`` leaves it.
        temperature: The temperature of ``era``.
        epochs: Passes over the communal set when clients and the server distil.
    """

    sends: ClassVar[Declared] = {
        "probabilities": Statistic("its model's probabilities for the communal samples", coded=True)
    }

    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_SUMS,)

    aggregation: Literal["era", "sa"] = "era"
    temperature: Positive = 0.1
    epochs: Count = 1

    @property
    def receives(self) -> Declared:  # type: ignore[override]  # simple aggregation has no softmax
        mean = "mean probabilities of all sites' models for the communal samples"
        return {"probabilities": Statistic(mean if self.aggregation == "sa" else f"{mean}, through a softmax")}

    def check(self, task: Task, work: LocalWork) -> None:
        super().check(task, work)
        require_classes("dsfl", task)

    def start(self, task: Task) -> State:
        return {"row": task.initial_row()}

    def look(self, net: Network, x: Inputs, places: Tensor) -> Mapping[str, Tensor]:
        return {"probabilities": torch.softmax(net(x), dim=1)}

    def aggregate(self, server: State, replies: Replies) -> State:
        goal, context = replies.mean("probabilities"), replies.context
        goal = goal if self.aggregation == "sa" else reduce_entropy(goal, self.temperature)
        row = context.train(
            server["row"],
            context.task.federation.communal,
            work=context.work.for_epochs(self.epochs),
            loss=towards(goal, context.task.federation.seen),
        )
        return {"row": row, "probabilities": goal}

    def distil(self, cohort: Cohort, rows: Tensor, message: Message) -> Tensor:
        work = cohort.setting.work.for_epochs(self.epochs)
        loss = towards(message["probabilities"], cohort.task.federation.seen)
        return cohort.train(rows, work=work, on=self.common_set(cohort), loss=loss)


def towards(goal: Tensor, seen: Tensor | None = None) -> Loss:
    """The loss of distilling probabilities of samples, which it looks up by their places.

    Args:
        goal: n×classes.
        seen: The classes seen so far in a stream; others are not distilled.
    """

    def loss(net: Network, x: Inputs, y: Tensor, _: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        values = soft_cross_entropy(net(x), goal[y], seen)
        return values, torch.ones_like(values)

    return loss
