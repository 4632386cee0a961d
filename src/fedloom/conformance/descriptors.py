"""Claims about FedHARM: what its descriptors are where they can be solved for, and what it is without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from fedloom.conformance.any_method import WORK, labelled_task
from fedloom.conformance.claim import Claim
from fedloom.conformance.quadratics import relative
from fedloom.conformance.run_method import run_method
from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.methods.fedharm.fedharm import FedHARM
from fedloom.methods.local import Local
from fedloom.training.local_trainer import LocalTrainer


def to_ranked_features(method: Algorithm) -> float:
    """The mean descriptors of one round, against each client's features in the order of the head's slopes.

    Of a linear head the slope of the odds of class c is ``W_c - sum_k q_k W_k``, with q the softmax over the others.
    """
    task = labelled_task()
    if not isinstance(method, FedHARM):
        return float("nan")
    k = method.counts(1)[0]
    found = run_method(task, method, 1, WORK, weight_by="uniform").state.server["descriptors"]
    rows = run_method(task, Local(), 1, WORK).prediction_rows()  # the models that clients describe the samples with
    communal = task.federation.communal
    inputs, labels = task.federation.columns["x"][communal].double().numpy(), task.targets(communal).numpy()
    wanted = np.zeros((len(communal), k))
    for row in rows:
        views = {name: view.double().numpy() for name, view in task.layout.views(row).items()}
        features = np.maximum(inputs @ views["0.weight"].T + views["0.bias"], 0)
        odds = np.exp(features @ views["2.weight"].T + views["2.bias"])
        odds[np.arange(len(odds)), labels] = 0
        others = odds / odds.sum(1, keepdims=True)
        slopes = np.abs(views["2.weight"][labels] - others @ views["2.weight"])
        order = np.argsort(-slopes, axis=1, kind="stable")[:, :k]
        wanted += np.take_along_axis(features, order, axis=1) / len(rows)
    return relative(found, wanted)


def to_communal_training(method: Algorithm) -> float:
    """Without alignment (a = 1): local training, then the task's loss on the communal set."""
    task = labelled_task()
    if not isinstance(method, FedHARM):
        return float("nan")
    run = run_method(task, replace(method, a=1.0), 1, WORK)
    ids = list(range(task.federation.clients))
    trainer = LocalTrainer(task, run.run.execution.name)
    first, second = (Cohort(ids, trainer, run.run.setting, 1, turn=turn) for turn in (0, 1))
    rows = second.train(
        first.train(first.spread(task.initial_row())),
        work=run.run.setting.work.for_epochs(method.epochs),
        on=task.federation.communal,
    )
    return float((run.prediction_rows() - rows).abs().max() / torch.linalg.vector_norm(rows))


DESCRIPTORS = {
    "fedharm": (
        Claim("has clients' features in the order of their influence as mean descriptors", to_ranked_features),
        Claim("without alignment trains alone, and then on the communal set", to_communal_training, within=0.0),
    )
}
