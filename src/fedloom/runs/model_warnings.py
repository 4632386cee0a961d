"""What is allowed and hardly ever meant, said once: softmax before cross-entropy, no training, averaged statistics, a
schedule that changes nothing."""

from __future__ import annotations

import copy

import torch
from torch import nn

from fedloom.core.algorithm import Algorithm
from fedloom.core.facts import Fact, holds
from fedloom.core.local_work import LocalWork
from fedloom.core.model.model_output import chosen_output
from fedloom.core.objective import CrossEntropy
from fedloom.core.task import Task
from fedloom.core.warn_once import warn_once

SAMPLES = 2
NEAR = 1e-4


def warn_of_model(task: Task, algorithm: Algorithm, work: LocalWork) -> None:
    """Say what a model or its training will do that hardly anybody means; each sentence once in a process.

    Args:
        task: The task as its clients train on it.
        algorithm: The method.
        work: The local work of a round.
    """
    if isinstance(task.objective, CrossEntropy) and gives_probabilities(task):
        warn_once(
            f"the outputs of {type(task.model).__name__} are probabilities already, and cross-entropy takes their "
            "softmax once more, which hardly learns: remove the softmax at the end of the model."
        )
    if work.steps is None and work.epochs == 0 and holds(Fact.TRAINS_LOCALLY, algorithm):
        warn_once("local.epochs = 0: clients train nothing, and all models stay as they start.")
    if work.schedule in ("step", "exponential", "cosine") and work.lr_decay == 1:
        warn_once(
            f'local.schedule = "{work.schedule}" changes nothing, since lr_decay is 1: set local.lr_decay, for '
            "instance to 0.1, or leave schedule out."
        )
    normed = [name for name, layer in task.model.named_modules() if keeps_statistics(layer)]
    if normed and holds(Fact.EXCHANGES, algorithm) and holds(Fact.WHOLE_MODEL, algorithm):
        warn_once(
            f"the running statistics of {type(task.model.get_submodule(normed[0])).__name__} '{normed[0]}' are "
            "averaged over clients: where their data differ, they fit nobody; fedbn keeps them with each client, and "
            "GroupNorm has none."
        )


def gives_probabilities(task: Task) -> bool:
    """Whether a model's outputs for some training samples are shares that sum to one."""
    samples = task.federation.train.order[:SAMPLES]
    if not len(samples) or not task.federation.samples_are_independent:
        return False
    model = copy.deepcopy(task.model).eval()
    with torch.no_grad():
        outputs = chosen_output(model, model(task.inputs(samples)))
    return outputs.shape[-1] > 1 and bool((outputs >= 0).all() and ((outputs.sum(-1) - 1).abs() < NEAR).all())


def keeps_statistics(layer: nn.Module) -> bool:
    """Whether a layer keeps running statistics of the batches that it has seen."""
    return isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.track_running_stats
