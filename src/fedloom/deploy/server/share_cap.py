"""The share of one site: what it announces is a claim, so it counts with no more samples than its share allows.

With the default share of a half, no site of three or more weighs more than all others together, whatever it claims.
Two sites are not capped: nobody can know which of them is right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from fedloom.data.schema import ClientSizes

FEWEST = 3
"""With fewer training sites there is no cap."""


def counted_sizes(sizes: Mapping[int, ClientSizes], sites: int, max_share: float) -> dict[int, ClientSizes]:
    """The sizes that sites count with: those that they announced, but for more training samples than allowed.

    Args:
        sizes: The announced sizes by client.
        sites: The number of training sites; clients from this number on do not train.
        max_share: The largest share of all training samples that one site may have.
    """
    train = {client: one.train for client, one in sizes.items() if client < sites}
    if len(train) < FEWEST or max_share == 1:
        return dict(sizes)
    total = sum(train.values())
    most = {client: math.floor(max_share / (1 - max_share) * (total - own)) for client, own in train.items()}
    return {
        client: one._replace(train=max(1, min(one.train, most.get(client, one.train)))) for client, one in sizes.items()
    }
