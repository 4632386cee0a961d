"""PerFCL: a shared body under a personal head, with contrasts that keep the two apart.

A model is a shared part (the body and a projection head, averaged) and a personalised part (the classifier and a second
projection head, which stay with the client). Of each sample, u is the shared projection and v the personal one; u_w
is the shared projection under the received model, v_l the personal one under the client's last model. The loss is
``CE + mu * c(u; u_w, v) + mu * c(v; v_l, u_w)``, where c is MOON's contrast (``methods/selfsupervised/contrast.py``).
The second term pulls the shared part to the received model and away from the personal one, and the third pushes the
personal part away from the received model. With mu = 0 this is FedPer.

Zhang et al., Personalized Federated Contrastive Learning, IEEE Big Data 2022 (no public link known). It is
implemented as the thesis of FedHARM describes it in a sentence; two heads behind one body, instead of two encoders,
are ours, so that a client's saved model is the task's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept, Model
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply
from fedloom.core.model.adapted_model import add_modules
from fedloom.core.network import Network, feature_width
from fedloom.core.settings import Count, NonNegative, Positive
from fedloom.core.task import Task
from fedloom.methods.requirements import require_features
from fedloom.methods.selfsupervised.contrast import model_contrast
from fedloom.methods.selfsupervised.heads import PROJECTION, projection_head
from fedloom.methods.shared_columns import SharedColumns

PERSONAL = "personal"
"""The name of the personal projection head."""


def body_and_projection(task: Task) -> Tensor:
    """A mask over a row's columns that is true for the body and the shared projection head."""
    return task.layout.columns("body") | task.layout.columns(PROJECTION)


@dataclass(frozen=True)
class PerFCL(SharedColumns):
    """A shared body under personal heads, with contrasts between the shared and the personal part.

    Args:
        mu: Weight of the two contrasts; 0 is FedPer.
        temperature: Temperature of the contrasts.
        projection: How many numbers each of the two projection heads makes of a sample.
    """

    breaks: ClassVar[Facts] = {Fact.WHOLE_MODEL: "shares a part of the model only"}
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_MEANS,)
    shared: ClassVar[str] = "shared"
    receives: ClassVar[Declared] = {
        "shared": Model("the model's body and its shared projection head", columns=body_and_projection)
    }
    sends: ClassVar[Declared] = {
        "shared": Model("the body and the shared projection head that the site trained", columns=body_and_projection)
    }
    keeps: ClassVar[Kept] = {"row": "the model that the site trained last, with its own classifier and projection head"}

    mu: NonNegative = 1.0
    temperature: Positive = 0.5
    projection: Count = 64

    def adapt_task(self, task: Task) -> Task:
        require_features("perfcl", task)
        features = feature_width(task)

        def heads() -> dict[str, nn.Module]:
            return {name: projection_head(features, self.projection) for name in (PROJECTION, PERSONAL)}

        return add_modules(task, heads)

    def check(self, task: Task, work: LocalWork) -> None:
        if set(task.layout.parts) != {"body", "head", PROJECTION, PERSONAL}:
            raise FedloomError(
                "perfcl needs a model with a body and a head, but this one has "
                f"{', '.join(part for part in task.layout.parts if part not in (PROJECTION, PERSONAL))}: name the "
                "head, and nothing but the head, in model.parts."
            )

    def own_rows(self, cohort: Cohort) -> Tensor:
        return cohort.kept_rows("row", super().own_rows(cohort))

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        received, objective = self.weights_for(message, cohort), cohort.task.objective
        last = cohort.kept_rows("row", received)

        def loss(net: Network, x: Inputs, y: Tensor, given: Mapping[str, dict[str, Tensor]]) -> tuple[Tensor, Tensor]:
            values, counts = objective.losses(net(x), y)
            again, there, before = net.at({}), net.at(given["received"]), net.at(given["last"])
            z = again.features(x).flatten(1)  # a second pass, so that all drop the same units
            u, v = again.apply(PROJECTION, z), again.apply(PERSONAL, z)
            u_received = there.apply(PROJECTION, there.features(x).flatten(1))
            v_last = before.apply(PERSONAL, before.features(x).flatten(1))
            near = model_contrast(u, u_received, v, self.temperature)
            apart = model_contrast(v, v_last, u_received, self.temperature)
            return values + self.mu * counts * (near + apart), counts

        rows = cohort.train(received, loss=loss, given={"received": received, "last": last})
        cohort.keep("row", rows)
        return Reply({"shared": rows[:, self.columns(cohort.task)]})
