"""LiRA: how likely a model's confidence in a sample is, if it was trained on it, and if it was not.

Over shadow models the scaled confidence phi in a sample is about normal, with one mean where the sample was in and
another where it was out: online, ``score = log N(phi; m_in, s_in) - log N(phi; m_out, s_out)``; offline, with shadow
models that never saw it, ``score = (phi - m_out) / s_out``. Carlini, Chien, Nasr, Song, Terzis and Tramèr, Membership
Inference Attacks From First Principles, S&P 2022, https://arxiv.org/abs/2112.03570. With fewer than 64 shadow models
the deviations are those over all samples, as there.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedloom.attacks.measures.guesses import Guesses, judge_guesses
from fedloom.attacks.membership.shadows import Shadows
from fedloom.attacks.membership.signals import confidence_at
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task

ENOUGH = 64
"""Of so many shadow models each sample has a deviation of its own."""
LEAST_DEVIATION = 1e-6


def lira(task: Task, row: Tensor, members: Tensor, others: Tensor, shadows: Shadows, online: bool = True) -> Guesses:
    """How well LiRA tells members from others.

    Args:
        row: The model that an attacker has.
        members: The positions of samples that it was trained on; in the shadows' pool.
        others: Positions of samples of the same kind that it was not trained on; in the pool too.
        shadows: The shadow models.
        online: Whether models that were trained on a sample are used too, which takes new ones for every new sample.
    """
    where = {position: place for place, position in enumerate(shadows.pool.tolist())}
    asked = torch.cat([members, others])
    if not where.keys() >= set(asked.tolist()):
        raise FedloomError("LiRA compares with shadow models, and some samples are not in their pool: make it larger.")
    places = torch.tensor([where[position] for position in asked.tolist()])
    told, inside = shadows.confidence(task)[:, places], shadows.inside[:, places]
    scores = lira_scores(confidence_at(task, row, asked), told, inside, online)
    return judge_guesses(scores[: len(members)], scores[len(members) :])


def lira_scores(confidence: Tensor, shadows: Tensor, inside: Tensor, online: bool = True) -> Tensor:
    """The score of each sample: higher for members.

    Args:
        confidence: The attacked model's scaled confidence in each sample.
        shadows: That of the shadow models: models×samples.
        inside: Whether a shadow model was trained on a sample: models×samples.
        online: Whether models that were trained on a sample are used too.
    """
    mean_out, spread_out = _normal(shadows, ~inside)
    if not online:
        return (confidence - mean_out) / spread_out
    mean_in, spread_in = _normal(shadows, inside)
    return _log_density(confidence, mean_in, spread_in) - _log_density(confidence, mean_out, spread_out)


def _normal(shadows: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation over the chosen models, of each sample."""
    number = chosen.sum(0)
    if not bool((number > 0).all()):
        raise FedloomError("LiRA needs a shadow model with, and one without, every sample: train two at least.")
    mean = (shadows * chosen).sum(0) / number
    squares = ((shadows - mean).square() * chosen).sum(0)
    if len(shadows) >= ENOUGH:
        variance = squares / number
    else:  # one for all samples, whose own mean has taken a degree of freedom from each
        variance = (squares.sum() / (number - 1).sum().clamp(min=1)).expand_as(mean)
    return mean, variance.sqrt().clamp(min=LEAST_DEVIATION)


def _log_density(x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    return -((x - mean) / spread).square() / 2 - spread.log() - math.log(2 * math.pi) / 2
