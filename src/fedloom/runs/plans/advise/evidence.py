"""The probability that one method is better than another, from the scores of single clients with some seeds.

The two are compared per client and seed, so that what they share (a client's data, a seed's initial model) cancels.
Clients and seeds are then resampled with replacement, both at once (Owen, The pigeonhole bootstrap, Annals of Applied
Statistics 2007). The probability is the share of draws in which the mean difference is above zero. With a single seed
only the clients are resampled, and the variation between seeds is not included.
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
    """The probability that the first is better (higher) than the second on average; 0.5 if they are equal."""
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
        drawn = ((by_client @ there) * by_seed).sum(1) > 0  # a draw may contain no pair of a client and a seed
        sums = np.where(np.abs(sums) < 1e-12 * len(pairs), 0.0, sums)[drawn]
        above += float((sums > 0).sum() + 0.5 * (sums == 0).sum())
        counted += len(sums)
    return above / counted if counted else 0.5
