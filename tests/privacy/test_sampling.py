"""What each sampling says of itself."""

import pytest

from fedloom.privacy.sampling import (
    REPLACE,
    ZERO_OUT,
    EveryClient,
    FixedSize,
    PoissonChains,
    PoissonDraw,
)


@pytest.mark.parametrize(
    ("sampling", "neighbours", "expected", "words"),
    [
        (PoissonDraw(0.1, 200), ZERO_OUT, 20, "Poisson sampling, rate 0.1"),
        (PoissonChains(0.5, 10), REPLACE, 5, "Poisson sampling of chains, rate 0.5"),
        (EveryClient(7), ZERO_OUT, 7, "every client in every round"),
        (FixedSize(3, 9), REPLACE, 3, "3 of 9 clients without replacement"),
    ],
)
def test_neighbours_and_clients_per_round(sampling, neighbours, expected, words):
    assert (sampling.neighbours, sampling.expected, str(sampling)) == (neighbours, expected, words)
