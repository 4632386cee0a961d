"""How sure it is that one method is better than another, from the scores of single clients under some seeds.

The two are compared client by client and seed by seed, so that what they share (a client's data, a seed's start)
cancels. Clients and seeds are then drawn anew with replacement, both at once (Owen, The pigeonhole bootstrap, Annals of
Applied Statistics 2007): the share of draws in which the mean difference is above zero is how sure we are. A single
seed cannot say how much seeds vary; then only the clients are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedloom.core.seeds import numpy_generator

DRAWS = 4000
SURE = 0.95
"""From this probability on, one method counts as better than another."""
AT_ONCE = 1 << 22
"""Numbers drawn at once."""
Scores = Mapping[tuple[int, str], float]
"""A score for each seed and client."""


def probability_better(one: Scores, other: Scores, draws: int = DRAWS) -> float:
    """How sure it is that the first is better (higher) than the second on average; 0.5 if they are the same."""
    pairs = sorted(one.keys() & other.keys())
    if not pairs:
        return 0.5
    seeds = {seed: place for place, seed in enumerate(sorted({seed for seed, _ in pairs}))}
    clients = {client: place for place, client in enumerate(sorted({client for _, client in pairs}))}
    table, there = np.zeros((2, len(clients), len(seeds)))
    for seed, client in pairs:
        table[clients[client], seeds[seed]] = one[seed, client] - other[seed, client]
        there[clients[client], seeds[seed]] = 1
    draw = numpy_generator(0, "evidence")
    above, counted = 0.0, 0
    block = max(1, AT_ONCE // len(clients))
    for start in range(0, draws, block):
        size = min(block, draws - start)
        by_client = draw.multinomial(len(clients), np.full(len(clients), 1 / len(clients)), size).astype(np.float64)
        by_seed = draw.multinomial(len(seeds), np.full(len(seeds), 1 / len(seeds)), size)
        sums = ((by_client @ table) * by_seed).sum(1)
        drawn = ((by_client @ there) * by_seed).sum(1) > 0  # else nobody of these seeds was among these clients
        sums = np.where(np.abs(sums) < 1e-12 * len(pairs), 0.0, sums)[drawn]
        above += float((sums > 0).sum() + 0.5 * (sums == 0).sum())
        counted += len(sums)
    return above / counted if counted else 0.5
