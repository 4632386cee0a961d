"""RMIA: whether a model has gained more on a sample than on samples of the population, pair by pair.

``ratio(x) = p(x | model) / p(x)``, ``score(x) = P_z( ratio(x) / ratio(z) >= gamma )`` over population samples z.
Zarifzadeh, Liu and Shokri, Low-Cost High-Power Membership Inference Attacks, ICML 2024,
https://arxiv.org/abs/2312.03262. ``p(x)`` is the mean over reference models of which half saw x; of models that did
not see it, ``p(x) = ((1 + a) p_out(x) + 1 - a) / 2`` (their offline form). One or two reference models do.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.attacks.measures.guesses import Guesses, judge_guesses
from fedloom.attacks.membership.shadows import Shadows
from fedloom.attacks.membership.signals import losses_at
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task


def rmia(
    task: Task,
    row: Tensor,
    members: Tensor,
    others: Tensor,
    shadows: Shadows,
    population: Tensor | None = None,
    gamma: float = 1.0,
    a: float = 0.3,
) -> Guesses:
    """How well RMIA tells members from others.

    Args:
        task: The task.
        row: The model that an attacker has.
        members: The positions of samples that it was trained on.
        others: Positions of samples of the same kind that it was not trained on.
        shadows: The reference models; a model that saw a sample is not used for it.
        population: Positions of other samples of the same kind; by default the pool of the shadows.
        gamma: By how much a sample must have gained more than another.
        a: How much a model that did not see a sample knows of it.
    """
    compared = shadows.pool if population is None else population
    asked = torch.cat([members, others])
    gain = _gain(task, row, shadows, asked, a)
    scores = rmia_scores(gain, _gain(task, row, shadows, compared, a), gamma)
    return judge_guesses(scores[: len(members)], scores[len(members) :])


def rmia_scores(gain: Tensor, population: Tensor, gamma: float = 1.0) -> Tensor:
    """The share of the population over which each sample has gained, at least ``gamma`` times.

    Args:
        gain: ``p(x | model) / p(x)`` of each sample that is asked for.
        population: The same of samples of the population.
        gamma: By how much it must have gained more.
    """
    ordered = population.sort().values
    return torch.searchsorted(ordered, gain / gamma, right=True).double() / len(ordered)


def _gain(task: Task, row: Tensor, shadows: Shadows, positions: Tensor, a: float) -> Tensor:
    """``p(x | model) / p(x)``, with ``p(x)`` by the reference models that did not see x."""
    where = {position: place for place, position in enumerate(shadows.pool.tolist())}
    places = torch.tensor([where.get(position, -1) for position in positions.tolist()])
    out = torch.where(places >= 0, ~shadows.inside[:, places.clamp(min=0)], True).double()
    if not bool((out.sum(0) > 0).all()):
        raise FedloomError("RMIA needs a reference model that did not see a sample: train two shadow models at least.")
    told = torch.stack([losses_at(task, shadow, positions).neg().exp() for shadow in shadows.rows])
    mean_out = (told * out).sum(0) / out.sum(0)
    return losses_at(task, row, positions).neg().exp() / (((1 + a) * mean_out + 1 - a) / 2)
