"""Membership by the loss: what a model has seen it finds easier.

``score = -loss``, and whoever is above a threshold is called a member. Yeom, Giacomelli, Fredrikson and Jha, Privacy
Risk in Machine Learning: Analyzing the Connection to Overfitting, CSF 2018, https://arxiv.org/abs/1709.01604. It needs
the model and nothing else, and says nothing of samples that are easy for everybody.
"""

from __future__ import annotations

from torch import Tensor

from fedloom.attacks.measures.guesses import Guesses, judge_guesses
from fedloom.attacks.membership.signals import losses_at
from fedloom.core.task import Task


def loss_threshold(task: Task, row: Tensor, members: Tensor, others: Tensor) -> Guesses:
    """How well losses tell members from others.

    Args:
        row: The model that an attacker has.
        members: The positions of samples that it was trained on.
        others: Positions of samples of the same kind that it was not trained on.
    """
    inside, outside = (-losses_at(task, row, positions) for positions in (members, others))
    return judge_guesses(inside, outside)
