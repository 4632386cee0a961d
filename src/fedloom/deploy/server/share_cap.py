"""The share of one site: what it announces is a claim, so it counts with no more samples than is plausible and allowed.

A claim of more than a thousand times the median of the others is implausible: it counts as that median, unless the
operator has stated the site's size. Then a site counts with no more samples than its share allows, if the operator has
set one: with a half, no site of three or more weighs more than all others together, whatever it claims. Where there are
two sites only what is stated bounds them: nobody can know which of them is right. Only weights are cut: what a site
announced stays what records and metrics say of it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from fedloom.data.tables.schema import ClientSizes

FEWEST = 3
"""With fewer training sites there is no cap."""
PLAUSIBLE = 1000
"""How many times the median of the others a claim may be. Partitions of the literature have up to about 300."""


@dataclass(frozen=True)
class SampleLimit:
    """What a site counts with that announces more than is plausible or allowed.

    Args:
        most: The training samples that count.
        reason: Why the others do not.
    """

    most: int
    reason: str


def sample_limits(
    sizes: Mapping[int, ClientSizes], sites: int, max_share: float, stated: Mapping[int, int]
) -> dict[int, SampleLimit]:
    """The limits of the sites that announce more training samples than are plausible and allowed, by client.

    Args:
        sizes: The announced sizes by client.
        sites: The number of training sites; clients from this number on do not train.
        max_share: The largest share of all training samples that one site may have.
        stated: The training samples of some clients, as the operator has stated them.
    """
    train = {client: one.train for client, one in sizes.items() if client < sites}
    reasons: dict[int, str] = {}
    for client, most in stated.items():
        if train.get(client, 0) > most:
            train[client], reasons[client] = most, "the size that deploy.toml states under [sizes]"
    if len(train) >= FEWEST:
        _count_implausible_as_median(train, stated, reasons)
        if max_share < 1:
            _cut_to_share(train, max_share, reasons)
    return {client: SampleLimit(train[client], reason) for client, reason in sorted(reasons.items())}


def _count_implausible_as_median(train: dict[int, int], stated: Mapping[int, int], reasons: dict[int, str]) -> None:
    claims = dict(train)
    for client, claim in claims.items():
        median = statistics.median(number for other, number in claims.items() if other != client)
        if client not in stated and claim > PLAUSIBLE * median:
            train[client] = max(1, math.floor(median))
            reasons[client] = (
                f"the median of the others, since more than {PLAUSIBLE:,} times that is implausible; if it is true, "
                "state it under [sizes] in deploy.toml"
            )


def _cut_to_share(train: dict[int, int], max_share: float, reasons: dict[int, str]) -> None:
    total = sum(train.values())
    for client, own in list(train.items()):
        most = max(1, math.floor(max_share / (1 - max_share) * (total - own)))
        if own > most:
            train[client], reasons[client] = most, f"max_share = {max_share:g}"
