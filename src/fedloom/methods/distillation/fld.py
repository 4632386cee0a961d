"""FLD: federated logit distillation, with multi-scale strips or without.

Clients train on their own data and send their outputs ``o`` for the communal set; the server takes the mean; clients
then minimise ``l_dis + m_c * l_mul`` on the communal set, where

- ``l_dis = |o - mean o|`` (equation 6.2), or of the head's inputs with ``layer=penultimate``;
- ``l_mul = (1/L) sum_l |Phi(z_l) - mean Phi(z_l)|`` over the L stages of the model (6.3), with the strips Phi of
  ``strips.py``. With ``multi_loss=A`` it is part of the one loss; with ``B`` each stage has an optimiser step of its
  own after that of l_dis, which changes nothing beyond its stage, from the first stage to the last; with ``C`` from the
  last to the first; with ``none`` there is no such term.

With ``common=false`` there is no communal set: clients send the mean outputs of each class of their own samples and
their counts, and distil the mean of each sample's class on their own data.

Psaltis, Federated, Multi-agent, Deep Reinforcement Learning (thesis, 2024; no public link known), chapters 6 and
7. The distances are Euclidean norms per sample, although the thesis calls them L_KL; the authors' code takes the mean
squared error instead (``distance=mse``, of outputs or features; strips keep their norm). The thesis weights clients
alike (``weight_by = "uniform"``); how long clients distil it does not say (``epochs``).
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
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies
from fedloom.core.model.growing_head import of_seen
from fedloom.core.model.stages import stage_names
from fedloom.core.network import Loss, Network
from fedloom.core.settings import Count, NonNegative
from fedloom.core.targets import label_mask
from fedloom.core.task import Task
from fedloom.core.trainer import LossStep
from fedloom.methods.distillation.class_means import class_means, mean_by_class
from fedloom.methods.distillation.communal_distillation import CommunalDistillation
from fedloom.methods.distillation.strips import all_strips, require_equal_strips, strip_distances
from fedloom.methods.requirements import (
    require_classes,
    require_communal,
    require_equal_features,
    require_features,
    require_stages,
)


def distances(found: Tensor, goal: Tensor) -> Tensor:
    """Each sample's Euclidean distance.

    Args:
        found: n×...
        goal: The same shape.
    """
    apart: Tensor = torch.linalg.vector_norm((found - goal).flatten(1), dim=1)
    return apart


def squared_errors(found: Tensor, goal: Tensor) -> Tensor:
    """Each sample's mean squared error.

    Args:
        found: n×...
        goal: The same shape.
    """
    return (found - goal).flatten(1).square().mean(1)


@dataclass(frozen=True)
class FLD(CommunalDistillation):
    """Clients distil the mean of what all models say of the communal set.

    Args:
        common: Whether there is a communal set; without one, clients exchange mean outputs of classes.
        layer: What is distilled: the outputs, or the inputs of the head (``penultimate``).
        multi_loss: How strips of the model's stages are distilled too: ``A`` in the same step, ``B`` in steps of their
            own from the first stage to the last, ``C`` from the last to the first.
        m_c: The weight of the strips' distance.
        epochs: Passes over the communal set when clients distil.
        distance: What ``l_dis`` is of each sample: the Euclidean ``norm``, or the mean squared error (``mse``).
    """

    receives: ClassVar[Declared] = {
        "outputs": Statistic("mean outputs of all sites' models for the communal samples"),
        "features": Statistic("mean inputs of the head of all sites' models for the communal samples"),
        "strips": Statistic("mean strips of the stages of all sites' models for the communal samples"),
        "means": Statistic("mean outputs of all sites' models for each class of their own samples"),
        "known": Statistic("the classes that any site has"),
    }
    sends: ClassVar[Declared] = {
        "outputs": Statistic("its model's outputs for the communal samples", coded=True),
        "features": Statistic("the inputs of its model's head for the communal samples", coded=True),
        "strips": Statistic("the strips of its model's stages for the communal samples", coded=True),
        "means": Statistic("its model's mean outputs for each class of its own samples", single=True, coded=True),
        "counts": Statistic("number of its samples of each class", single=True, counts=True),
    }

    common: bool = True
    layer: Literal["output", "penultimate"] = "output"
    multi_loss: Literal["none", "A", "B", "C"] = "none"
    m_c: NonNegative = 0.1
    epochs: Count = 1
    distance: Literal["norm", "mse"] = "norm"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.common and (self.layer != "output" or self.multi_loss != "none"):
            raise FedloomError(
                "common=false exchanges mean outputs of classes: leave out layer and multi_loss, or use a communal set."
            )

    @property
    def grants(self) -> Collection[Fact]:  # type: ignore[override]  # means of classes need each client's counts
        return (Fact.ONLY_SUMS,) if self.common else ()

    @property
    def breaks(self) -> Facts:  # type: ignore[override]  # some losses are minimised one after another
        found = {Fact.ONE_STEP: "takes several steps per batch"} if self.multi_loss in ("B", "C") else {}
        if not self.common:
            found[Fact.ONLY_SUMS] = "needs, with common=false, each client's counts of classes: use a communal set"
        return found

    def check(self, task: Task, work: LocalWork) -> None:
        name = type(self).__name__.lower()
        if not self.common:
            require_classes(name, task)
            return
        require_communal(name, task)
        if self.layer == "penultimate":
            for own in task.by_architecture:
                require_features(name, own)
            require_equal_features(name, task)
        if self.multi_loss != "none":
            for own in task.by_architecture:
                require_stages(name, own)
            require_equal_strips(name, task)

    def knowledge(self, cohort: Cohort, rows: Tensor) -> dict[str, Tensor]:
        if self.common:
            return super().knowledge(cohort, rows)
        return {"means": class_means(cohort, rows), "counts": cohort.classes().float()}

    def look(self, net: Network, x: Inputs, places: Tensor) -> Mapping[str, Tensor]:
        found = {self.subject: self._answer(net, x)}
        return found if self.multi_loss == "none" else found | {"strips": all_strips(net.stages(x)[1])}

    @property
    def subject(self) -> str:
        """The name of what is distilled beside strips."""
        if not self.common:
            return "means"
        return "outputs" if self.layer == "output" else "features"

    def _answer(self, net: Network, x: Inputs) -> Tensor:
        return net(x) if self.layer == "output" else net.features(x).flatten(1)

    def aggregate(self, server: State, replies: Replies) -> State:
        if self.common:
            return super().aggregate(server, replies)
        means, known = mean_by_class(replies, "means", "counts")
        return {**server, "means": means, "known": known}

    def distil(self, cohort: Cohort, rows: Tensor, message: Message) -> Tensor:
        work = cohort.setting.work.for_epochs(self.epochs)
        on = self.common_set(cohort) if self.common else None
        return cohort.train(rows, work=work, on=on, steps=self.kd_steps(cohort, message))

    def kd_steps(self, cohort: Cohort, message: Message) -> list[LossStep]:
        """The steps that are made with each batch: that of ``kd_loss``, then those of the stages.

        Args:
            cohort: The clients.
            message: The lesson.
        """
        steps = [LossStep(self.kd_loss(cohort, message))]
        if self.multi_loss in ("B", "C"):
            stages = range(1, self._stages(cohort) + 1)
            order = stages if self.multi_loss == "B" else reversed(stages)
            steps += [LossStep(self._stage_loss(message["strips"], stage), until=stage) for stage in order]
        return steps

    def kd_loss(self, cohort: Cohort, message: Message) -> Loss:
        """The loss of the main step, ``l_dis``, and with ``multi_loss=A`` also ``m_c * l_mul``.

        Args:
            cohort: The clients.
            message: The lesson.
        """
        goal, known = message[self.subject], message.get("known")
        of_each = distances if self.distance == "norm" else squared_errors
        seen = cohort.task.federation.seen if self.layer == "output" else None

        def loss(net: Network, x: Inputs, y: Tensor, _: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
            label = y if known is None else y.clamp(min=0)  # of classes; a sample without a label has none
            apart = of_each(of_seen(self._answer(net, x), seen), of_seen(goal[label], seen))
            if self.multi_loss == "A":
                of_stages = strip_distances(net.at({}).stages(x)[1], message["strips"][y])
                apart = apart + self.m_c * sum(of_stages) / len(of_stages)
            if known is not None:
                apart = apart * known[label] * label_mask(y)
            return apart, torch.ones_like(apart)

        return loss

    def _stage_loss(self, goal: Tensor, stage: int) -> Loss:
        """The share of one stage in ``m_c * l_mul``."""

        def loss(net: Network, x: Inputs, y: Tensor, _: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
            of_stages = strip_distances(net.stages(x)[1], goal[y])
            apart = self.m_c / len(of_stages) * of_stages[stage - 1]
            return apart, torch.ones_like(apart)

        return loss

    def _stages(self, cohort: Cohort) -> int:
        return len(stage_names(cohort.task.model))
