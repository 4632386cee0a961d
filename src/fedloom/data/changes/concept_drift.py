"""Concept drift with real data: from given rounds on, clients hold each other's samples.

At each drift a share of the clients, in a random order, pass their train, validation and test parts to the next one.
Labels, sizes and styles change at the same time. No sample is lost or added, so the data of the whole federation stay
the same: only models that were fitted to a client's own data can get worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.settings import Count, PositiveShare, check_settings, check_value
from fedloom.data.federation import Federation, Ragged


@dataclass(frozen=True)
class Drift:
    """The settings of ``with_concept_drift``, as a task's configuration holds them (``task.drift``)."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    rounds: list[Count]
    share: PositiveShare = 1.0

    def __post_init__(self) -> None:
        check_settings(self)


def with_concept_drift(federation: Federation, rounds: Sequence[int], share: float = 1.0, seed: int = 0) -> Federation:
    """A federation in which, from each of ``rounds`` on, a share of the clients holds the data of others.

    Each drift comes on top of the ones before. Clients keep their names; a withheld class stays withheld in the data
    it was taken from, whichever client holds them.

    Args:
        federation: The federation before the drift.
        rounds: The rounds in which data change: each at least 1, in increasing order.
        share: The share of clients whose data change at each drift.
        seed: The seed of the random order.
    """
    if not rounds or list(rounds) != sorted(set(rounds)) or rounds[0] < 1:
        raise FedloomError(f"drift rounds={list(rounds)}: give rounds, each at least 1, in increasing order.")
    check_value("drift share", share, PositiveShare)
    if federation.later:
        raise FedloomError("this federation already has concept drift: give all rounds in one call.")
    number = round(share * federation.clients)
    if number < 2:
        raise FedloomError(
            f"drift share={share} of {federation.clients} clients: at least two clients must exchange their data."
        )
    holds = np.arange(federation.clients)
    later = []
    for since in rounds:
        circle = numpy_generator(seed, "drift", since).permutation(federation.clients)[:number]
        holds[circle] = holds[np.roll(circle, -1)]
        later.append((since, _exchange_data(federation, holds)))
    return replace(federation, later=tuple(later))


def _exchange_data(federation: Federation, holds: np.ndarray) -> Federation:
    """The federation whose client k holds what client ``holds[k]`` held."""
    parts = (federation.train, federation.test, federation.valid)
    train, test, valid = (Ragged.of([part[client] for client in holds.tolist()]) for part in parts)
    withheld = federation.withheld
    if withheld is not None:
        label, victims = withheld
        withheld = (label, tuple(np.isin(holds, victims).nonzero()[0].tolist()))
    counted = None if federation.counted is None else federation.counted[torch.from_numpy(holds)]
    return replace(federation, train=train, test=test, valid=valid, withheld=withheld, counted=counted)
