"""ALIE: hostile clients send one and the same update, a little away from the mean, where no rule notices it.

``change <- mean - z * std``, coordinate by coordinate, with mean and standard deviation of the hostile clients' own
updates: they see nobody else's. ``z`` is the largest that leaves enough honest clients farther from the mean than the
hostile ones. Of ``n`` clients, ``m`` of them hostile, ``s = floor(n / 2 + 1) - m`` honest ones must be farther away,
so that the hostile ones and they are a majority:

    ``z_max = max { z : Phi(z) < (n - m - s) / (n - m) }``

Where that is negative (few hostile clients among few) we take 0: the hostile clients send their mean. Once they are the
majority themselves, the formula asks for no honest client; we ask for one, so that ``z`` stays finite.

Baruch, Baruch and Goldberg, A Little Is Enough: Circumventing Defenses For Distributed Learning, NeurIPS 2019,
https://arxiv.org/abs/1902.06156.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

from torch import Tensor

from fedloom.core.adversary import Adversary
from fedloom.core.facts import Fact, Facts
from fedloom.core.settings import Positive


@dataclass(frozen=True)
class ALIE(Adversary):
    """Hostile clients agree on an update that is ``z`` standard deviations away from the mean of their own.

    One hostile client alone has no deviation: a run that never has two of the same model together is refused, and where
    a round has only one, it sends its own update, which is logged once.

    Args:
        z: How many standard deviations; by default ``z_max`` of the paper for the clients of the round.
    """

    needs: ClassVar[Facts] = dict.fromkeys(
        (Fact.UPDATES, Fact.EXCHANGES), "changes the updates that clients send: choose another attack or method"
    )

    least_colluders: ClassVar[int] = 2

    z: Positive | None = None

    def collude(self, name: str, changes: Tensor, clients: int) -> Tensor:
        """The same change for all: the mean, less ``z`` standard deviations."""
        z = largest_z(clients, len(changes)) if self.z is None else self.z
        mean, std = changes.mean(dim=0), changes.std(dim=0, correction=0)
        return (mean - z * std).expand_as(changes)


def largest_z(clients: int, hostile: int) -> float:
    """How many standard deviations a round's hostile clients can be away from the mean, and not below 0.

    Args:
        clients: How many clients the round has.
        hostile: How many of them are hostile.
    """
    honest = clients - hostile
    supporters = max(clients // 2 + 1 - hostile, 1)
    if 2 * supporters >= honest:
        return 0.0
    return NormalDist().inv_cdf((honest - supporters) / honest)
