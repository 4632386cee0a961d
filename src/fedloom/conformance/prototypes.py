"""The claim about FedProto: the server's prototypes are the class means of all clients' features."""

from __future__ import annotations

import numpy as np

from fedloom.conformance.any_method import CLASSES, WORK, labelled_task
from fedloom.conformance.claim import Claim
from fedloom.conformance.quadratics import relative
from fedloom.conformance.run_method import run_method
from fedloom.core.algorithm import Algorithm


def to_class_means(method: Algorithm) -> float:
    """The distance of the prototypes after one round from each class's mean features over all samples."""
    task = labelled_task()
    run = run_method(task, method, 1, WORK)
    sums, counts = np.zeros((CLASSES, 5)), np.zeros(CLASSES)
    for client, row in enumerate(run.prediction_rows()):
        views = {name: view.double().numpy() for name, view in task.layout.views(row).items()}
        own = task.federation.train[client]
        inputs, labels = task.federation.columns["x"][own].double().numpy(), task.targets(own).numpy()
        features = np.maximum(inputs @ views["0.weight"].T + views["0.bias"], 0)
        for label in range(CLASSES):
            sums[label] += features[labels == label].sum(0)
            counts[label] += (labels == label).sum()
    return relative(run.state.server["prototypes"], sums / counts[:, None])


PROTOTYPES = {"fedproto": (Claim("has the class means of all clients' features as prototypes", to_class_means),)}
