"""Oort: prefer clients with a high loss, and keep trying clients that have never taken part.

Lai et al., Oort: Efficient Federated Learning via Guided Participant Selection, OSDI 2021. Only the statistical
utility is implemented: there is no penalty for slow clients, no pacer and no list of clients that took part too often.
The paper's utility n * sqrt(mean of squared losses) is replaced by n * |mean loss| of the model that the client
received. As in the authors' code, utilities are clipped at their 95th percentile and scaled to [0, 1] before the
staleness bonus is added, and untried clients are drawn by size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.selector import Choice, Pool
from fedloom.core.settings import PositiveShare, Share
from fedloom.selection.sampling import PerRound, draw_by_weight

CLIP = 0.95
CUT_OFF = 0.95


@dataclass(frozen=True)
class Oort(PerRound):
    """Select clients with a large loss on much data, and a share of clients that have never taken part.

    The share of untried clients is ``epsilon * decay ** round``, but at least ``epsilon_min``.

    Args:
        fraction: The share of clients per round, rounded up.
        number: The number of clients per round, instead of ``fraction``.
        epsilon: The share of untried clients at the start.
        decay: The factor of that share from round to round.
        epsilon_min: The least share of untried clients.
    """

    epsilon: Share = 0.9
    decay: PositiveShare = 0.98
    epsilon_min: Share = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon_min > self.epsilon:
            raise FedloomError(
                f"epsilon={self.epsilon} and epsilon_min={self.epsilon_min}: epsilon_min must not exceed epsilon."
            )

    def __call__(self, pool: Pool) -> Choice:
        """Select tried clients by utility and untried ones by size."""
        number = self.per_round(pool.size)
        if number == pool.size:
            return Choice(list(range(pool.size)))
        zeros = torch.zeros(pool.size)
        utility, last = pool.state.get("utility", zeros), pool.state.get("last", zeros)
        tried, untried = (last > 0).nonzero().flatten(), (last == 0).nonzero().flatten()
        explore = round(number * max(self.epsilon * self.decay**pool.round, self.epsilon_min))
        exploit = min(max(number - explore, number - len(untried)), len(tried))
        chosen = []
        if exploit:
            scores = _scores(utility[tried], last[tried], pool.round)
            best = scores >= CUT_OFF * scores.sort(descending=True).values[exploit - 1]
            drawn = draw_by_weight(pool.generator("exploit"), scores[best], exploit)
            chosen += tried[best][drawn].tolist()
        if exploit < number:
            drawn = draw_by_weight(pool.generator("explore"), pool.samples[untried], number - exploit)
            chosen += untried[drawn].tolist()
        places = torch.tensor(chosen)
        utility = utility.index_copy(0, places, pool.samples[places] * pool.ask(chosen).loss.abs())
        return Choice(chosen, {"utility": utility, "last": last.index_fill(0, places, pool.round)})


def _scores(utility: Tensor, last: Tensor, now: int) -> Tensor:
    """Clipped and scaled utilities plus a bonus for clients that last took part long ago."""
    top, low = utility.quantile(CLIP), utility.min()
    scaled = (utility.clamp(max=float(top)) - low) / (top - low).clamp(min=1e-4)
    return scaled + (0.1 * math.log(now) / last).sqrt()
