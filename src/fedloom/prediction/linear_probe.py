"""Linear probe: before predicting, a client's head is fitted anew on frozen features.

The usual test of representations that were learnt without labels. The head is the multinomial logistic regression of
the labels on the features of the row that the client has: it minimises
``sum_i CE(W z_i + b, y_i) + l2 / 2 * |W|^2``, to convergence, so that it has no learning rate and no seed; b = 0 where
the model's head has no biases. Samples without a label (``task.label_share``) do not count. The fitted head is neither
kept nor sent.

Chen et al., A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020,
https://arxiv.org/abs/2002.05709, section 2.2 (there by stochastic gradients).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message
from fedloom.core.network import feature_width
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.settings import Positive
from fedloom.core.targets import IGNORED
from fedloom.core.task import Task

STOP = {"maxiter": 500, "gtol": 1e-4, "ftol": 1e-10}
"""When the fit has converged: far below what changes a prediction."""


@dataclass(frozen=True)
class LinearProbe(PredictionStage):
    """Fit the head anew on frozen features before predicting, by logistic regression.

    Args:
        on: The samples that it is fitted on: each client's ``own`` training samples, or the ``communal`` set.
        l2: Weight of the penalty on the head's weights.
    """

    trains_head: ClassVar[bool] = True

    on: Literal["own", "communal"] = "own"
    l2: Positive = 1.0

    def check(self, algorithm: Algorithm, task: Task, before: tuple[PredictionStage, ...]) -> None:
        if not task.classifies:
            raise FedloomError(f"linearprobe fits classes, but task {task.name} has no class per sample: drop it.")
        for own in task.by_architecture:
            head = [slot.shape for slot in own.layout.slots if slot.part == "head"]
            weights = (own.federation.classes, feature_width(own))
            if head not in ([weights, weights[:1]], [weights]):
                raise FedloomError(
                    f"linearprobe fits a head that is one linear layer from features to classes, but that of "
                    f"{type(own.model).__name__} has the tensors {', '.join(map(str, head))}: use another model."
                )
        if self.on == "communal" and not (len(task.federation.communal) and task.federation.communal_labelled):
            raise FedloomError(
                "linearprobe:on=communal fits heads on a labelled communal set, but the task has none: set "
                "task.communal = 0.1, or leave out on."
            )

    def weights(self, rows: Tensor, message: Message, cohort: Cohort) -> Tensor:
        task, layout = cohort.task, cohort.task.layout
        heads, last = [], None
        for place, row in enumerate(rows.expand(len(cohort), -1)):
            if self.on == "communal" and last is not None and torch.equal(row, last):
                heads.append(heads[-1])  # clients that share an encoder share its probe
                continue
            own = task.federation.train[cohort.ids[place]]
            positions = task.federation.communal if self.on == "communal" else own
            labels = task.targets(positions)
            labelled = labels != IGNORED
            old = layout.take(row, "head")
            if bool(labelled.any()):
                features = cohort.trainer.features(row, positions[labelled])
                classes = task.federation.classes
                biased = len(old) > classes * features.shape[1]
                heads.append(fit_head(features, labels[labelled], classes, self.l2, biased=biased))
            else:
                heads.append(old)
            last = row
        return layout.put(rows.expand(len(cohort), -1), "head", torch.stack(heads))


def fit_head(features: Tensor, labels: Tensor, classes: int, l2: float, *, biased: bool = True) -> Tensor:
    """The weights and then the biases of multinomial logistic regression, as one row.

    Args:
        features: n×d.
        labels: The class of each sample.
        classes: How many classes there are.
        l2: Weight of the penalty on the weights; biases have none.
        biased: Whether there are biases.
    """
    from scipy.optimize import minimize  # half a second to import
    from threadpoolctl import threadpool_limits

    width, places = features.shape[1], torch.arange(len(labels))
    centre = features.double().mean(0) * biased  # biases have no penalty, so that centring is free
    z = features.double() - centre
    if biased:
        z = torch.cat([z, torch.ones(len(z), 1, dtype=torch.float64)], dim=1)

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        head = torch.from_numpy(flat).view(classes, -1)
        logs = (z @ head.t()).log_softmax(1)
        value = l2 / 2 * head[:, :width].square().sum() - logs[places, labels].sum()
        errors = logs.exp()
        errors[places, labels] -= 1
        gradient = errors.t() @ z
        gradient[:, :width] += l2 * head[:, :width]
        return float(value), gradient.reshape(-1).numpy()

    start = np.zeros(classes * z.shape[1])
    with threadpool_limits(1):  # the vectors are short: threads would mostly wait for each other
        solved = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=STOP)
    found = torch.from_numpy(solved.x).view(classes, -1)
    weights = found[:, :width]
    biases = found[:, width] - weights @ centre if biased else found[0, :0]
    return torch.cat([weights.reshape(-1), biases]).float()
