"""Which labels a client's samples have: the gradient of the last layer's bias tells.

With cross-entropy the gradient of output c is ``p_c - y_c``: of one sample only that of its own class is negative.
Zhao, Mopuri and Bilen, iDLG: Improved Deep Leakage from Gradients, 2020, https://arxiv.org/abs/2001.02610.

Of n samples the mean is ``mean(p_c) - n_c / n``, so that ``n_c = n (mean(p_c) - gradient_c)`` wherever the mean
prediction is known. We take that of inputs of noise, since it hardly depends on samples while a model has learnt
little. Wainakh et al., User-Level Label Leakage from Gradients in Federated Learning, PoPETs 2022,
https://arxiv.org/abs/2105.09369, estimate the same two terms from the weights of the last layer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.attacks.reconstruction.gradients import outputs_of
from fedloom.core.errors import FedloomError
from fedloom.core.layout import Slot
from fedloom.core.model.adapted_model import model_columns
from fedloom.core.objective import CrossEntropy
from fedloom.core.task import Task


def needed_classes(attack: object, task: Task) -> None:
    """Raise a ``FedloomError`` for a task without classes that are learnt by cross-entropy.

    Args:
        attack: Who needs them.
    """
    if not task.classifies or not isinstance(task.objective, CrossEntropy):
        raise FedloomError(
            f"{type(attack).__name__.lower()} needs classes that are learnt by cross-entropy, and task {task.name} has "
            "others, or another loss: linearleak and trapweights read samples under any loss."
        )


def last_bias(task: Task) -> Slot | None:
    """Where the bias of the model's last layer lies, with a number per class; None if it has none."""
    last = trained_slots(task)[-1]
    return last if last.shape == (task.federation.classes,) else None


def trained_slots(task: Task) -> list[Slot]:
    """Where the parameters of the task's own model lie, without those of modules that a method adds to it."""
    own = model_columns(task)
    return [slot for slot in task.layout.trainable if bool(own[slot.start])]


def label_of_one(bias_gradient: Tensor) -> int:
    """The label of a single sample: the only class with a negative gradient.

    Args:
        bias_gradient: The gradient of the last layer's bias.
    """
    return int(bias_gradient.argmin())


def label_counts(bias_gradient: Tensor, probabilities: Tensor, samples: int) -> Tensor:
    """How many samples there are of each class: whole numbers that add up.

    Args:
        bias_gradient: The gradient of the last layer's bias, of the mean loss.
        probabilities: The mean prediction of the model, as far as the attacker knows it.
        samples: How many samples there are.
    """
    shares = (probabilities - bias_gradient).double().clamp(min=0)
    if not bool(shares.any()):  # no class is there by this guess at the prediction: each is as likely as another
        shares = torch.ones_like(shares)
    wanted = samples * shares / shares.sum().clamp(min=1e-12)
    counts = wanted.floor().long()
    missing = samples - int(counts.sum())
    if missing > 0:
        counts[(wanted - counts).topk(min(missing, len(counts))).indices] += 1
    return counts


def mean_prediction(task: Task, row: Tensor, inputs: Tensor) -> Tensor:
    """The mean prediction of a model for inputs that an attacker has, as probabilities.

    Args:
        row: The model.
        inputs: Prepared inputs: any of the same kind, or noise.
    """
    with torch.no_grad():
        return outputs_of(task, task.layout.views(row), inputs).softmax(1).mean(0)


def labels_found(counts: Tensor, labels: Tensor) -> float:
    """The share of labels that counts by class name rightly.

    Args:
        counts: How many samples of each class an attacker believes in.
        labels: The true labels.
    """
    true = labels.bincount(minlength=len(counts))
    return float(torch.minimum(counts, true).sum() / max(len(labels), 1))
