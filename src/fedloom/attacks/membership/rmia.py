"""RMIA: whether a model has gained more on a sample than on samples of the population, pair by pair.

``ratio(x) = p(x | model) / p(x)``, ``score(x) = P_z( ratio(x) / ratio(z) >= gamma )`` over population samples z.
Zarifzadeh, Liu and Shokri, Low-Cost High-Power Membership Inference Attacks, ICML 2024,
https://arxiv.org/abs/2312.03262. Online, ``p(x) = (p_in(x) + p_out(x)) / 2`` of reference models that saw x and of
others; offline, with those alone that did not see it, ``p(x) = ((1 + a) p_out(x) + 1 - a) / 2``. One or two reference
models do.
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
    online: bool = True,
    gamma: float = 1.0,
    a: float = 0.3,
) -> Guesses:
    """How well RMIA tells members from others.

    Args:
        row: The model that an attacker has.
        members: The positions of samples that it was trained on.
        others: Positions of samples of the same kind that it was not trained on.
        shadows: The reference models.
        population: Positions of other samples of the same kind; by default the pool of the shadows.
        online: Whether models that were trained on a sample are used too, where there are any.
        gamma: By how much a sample must have gained more than another.
        a: Offline, how much a model that did not see a sample knows of it.
    """
    compared = shadows.pool if population is None else population
    asked = torch.cat([members, others])
    gain, usual = (_gain(task, row, shadows, positions, online, a) for positions in (asked, compared))
    scores = rmia_scores(gain, usual, gamma)
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


def _gain(task: Task, row: Tensor, shadows: Shadows, positions: Tensor, online: bool, a: float) -> Tensor:
    """``p(x | model) / p(x)``."""
    where = {position: place for place, position in enumerate(shadows.pool.tolist())}
    places = torch.tensor([where.get(position, -1) for position in positions.tolist()])
    out = torch.where(places >= 0, ~shadows.inside[:, places.clamp(min=0)], True).double()
    if not bool((out.sum(0) > 0).all()):
        raise FedloomError("RMIA needs a reference model that did not see a sample: train two shadow models at least.")
    told = torch.stack([losses_at(task, shadow, positions).neg().exp() for shadow in shadows.rows])
    mean_out = (told * out).sum(0) / out.sum(0)
    offline, seen = ((1 + a) * mean_out + 1 - a) / 2, len(out) - out.sum(0)
    both = (mean_out + (told * (1 - out)).sum(0) / seen.clamp(min=1)) / 2
    return losses_at(task, row, positions).neg().exp() / torch.where((seen > 0) & online, both, offline)
