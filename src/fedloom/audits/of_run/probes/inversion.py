"""The probe of whoever gets the final model: what it shows of its classes."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.attacks.measures.interval import clopper_pearson
from fedloom.attacks.reconstruction.class_inversion import invert_class
from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.attacks.reconstruction.rebuilt import value_range
from fedloom.audits.of_run.play.subject import OutOfTime, Played
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.probe import Measure, ProbeOutcome, Sample
from fedloom.audits.of_run.probes.rebuilding import LARGEST, SHOWN
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task

CLASSES = 10
"""How many classes are inverted at most."""
MOST = 200
"""Of how many samples of a class its mean is taken."""


def invert_classes(trial: Trial) -> ProbeOutcome:
    """Seek each class's input, and count those that are most like the mean of their own class."""
    played = trial.plain
    task, row = shared_model(played)
    if not task.classifies or task.has_named_inputs or not inputs_of(task, task.sample).is_floating_point():
        raise FedloomError(f"class inversion seeks one input of numbers for each class, and {task.name} has other.")
    low, high = value_range(task)
    means = _class_means(task)
    some = sorted(means)[:CLASSES]
    if len(some) < 2:
        raise FedloomError(f"class inversion compares classes, and {task.name} has fewer than two.")
    found = dict[int, Tensor]()
    for label in some:
        if trial.over():
            raise OutOfTime
        found[label] = invert_class(task, row, label, low=low, high=high)
    stacked = torch.stack([_without_mean(means[label]) for label in some])
    right = [int((stacked @ _without_mean(found[label])).argmax()) == place for place, label in enumerate(some)]
    least, most = clopper_pearson(sum(right), len(some))
    names = task.federation.class_names
    shown = some[:SHOWN] if means[some[0]].numel() <= LARGEST else []
    samples = tuple(
        Sample(means[label].tolist(), found[label].tolist(), f"class {names[label] if names else label}")
        for label in shown
    )
    measures = {
        "classes": Measure(sum(right) / len(some), float(least), float(most)),
        "chance": Measure(1 / len(some)),
    }
    return ProbeOutcome(measures, samples, (low, high), "beside the mean of each class; no sample of anybody")


def shared_model(played: Played) -> tuple[Task, Tensor]:
    """The task and the shared model of a run, as whoever gets the model has it."""
    if played.diverged:
        raise FedloomError(f"the run diverged: {played.diverged}")
    if played.row is None or played.score_kind.shared not in played.metrics:
        raise FedloomError("the run has no shared model that somebody could get: each client has its own.")
    return played.task, played.row


def _class_means(task: Task) -> dict[int, Tensor]:
    """The mean training input of each class that has any."""
    order = task.federation.train.order
    labels = task.targets(order)
    return {
        label: inputs_of(task, order[labels == label][:MOST]).float().mean(0)
        for label in range(task.federation.classes)
        if bool((labels == label).any())
    }


def _without_mean(image: Tensor) -> Tensor:
    """An image as a vector of length 1 around its mean, so that products are correlations."""
    flat = image.flatten().double()
    flat = flat - flat.mean()
    length: Tensor = flat.norm().clamp(min=1e-12)
    return flat / length
