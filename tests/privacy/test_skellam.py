"""Noise in shares: what they add up to, what that spends, and what an attacker can tell from a sum at most."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import skellam as scipy_skellam

from fedloom.core.errors import FedloomError
from fedloom.privacy.client_ledger import LocalLedger
from fedloom.privacy.skellam import SkellamShares, renyi_bound, skellam
from support.distinguishing import violation


def seeded(seed: int):
    generator = np.random.default_rng(seed)
    return lambda count: 1 - generator.random(count)


@pytest.mark.parametrize("variance", [0.7, 9.0, 400.0])
def test_noise_has_the_probabilities_of_the_distribution(variance):
    drawn, spread = skellam(variance, 20_000), math.sqrt(variance)
    for value in np.unique(np.round(np.linspace(-2 * spread, 2 * spread, 5))):
        expected = scipy_skellam.cdf(value, variance / 2, variance / 2)
        assert (drawn <= value).mean() == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / 20_000))


@pytest.mark.parametrize("clients", [3, 4, 9])
def test_shares_add_up_to_the_planned_noise_or_more(clients):
    shares = SkellamShares(noise=2.0, clip=10.0, step=1.0, width=5000, fewest=3)
    total = shares.add_noise(torch.zeros(clients, 5000, dtype=torch.int64), seeded(1)).sum(0)
    variance = float(total.double().var())
    assert variance == pytest.approx(shares.variance * clients / 3, rel=0.12)
    assert abs(float(total.double().mean())) < 5 * math.sqrt(variance / 5000)
    assert int(total.abs().max()) < shares.largest_noise(clients)


@pytest.mark.parametrize("variance", [4.0, 30.0])
@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("order", [2, 5, 20])
def test_the_papers_bound_holds_and_is_close(variance, shift, order):
    """The divergence of two shifted Skellam distributions, summed up exactly in one dimension."""
    reach = np.arange(-400, 401)
    one = scipy_skellam.logpmf(reach - shift, variance / 2, variance / 2)
    two = scipy_skellam.logpmf(reach, variance / 2, variance / 2)
    there = np.isfinite(one) & np.isfinite(two)
    exact = np.logaddexp.reduce(order * one[there] + (1 - order) * two[there]) / (order - 1)
    bound = renyi_bound(order, shift, shift, variance)
    assert exact <= bound * (1 + 1e-9)
    if variance > 10 * order:
        assert bound <= 1.3 * exact


def test_with_a_fine_grid_it_spends_what_gaussian_noise_spends():
    """Up to what Rényi's accounting loses against privacy loss distributions."""
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    shares = SkellamShares(noise=8.0, clip=1.0, step=1e-5, width=1000, fewest=5)
    gaussian = LocalLedger(8.0, 1e-5)
    for sums in (1, 20):
        assert gaussian.epsilon(1, sums) <= shares.epsilon(sums, 1e-5) <= 1.35 * gaussian.epsilon(1, sums)
    coarse = SkellamShares(noise=8.0, clip=1.0, step=0.5, width=1000, fewest=5)
    assert coarse.epsilon(1, 1e-5) > shares.epsilon(1, 1e-5)
    assert shares.epsilon(0, 1e-5) == 0


RUNS = 40_000


def released(shares: SkellamShares, value: int, clients: int, seed: int) -> np.ndarray:
    """What the sum of some clients is in many independent rounds, where one of them has this value."""
    generator, total = seeded(seed), np.zeros(RUNS)
    for client in range(clients):
        rows = torch.full((RUNS, 1), value if client == 0 else 0, dtype=torch.int64)
        total += shares.add_noise(rows, generator).double().numpy()[:, 0]
    return total


@pytest.mark.parametrize("came", [3, 12])
def test_an_attacker_tells_two_rows_no_better_than_epsilon_allows_also_when_few_came(came):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    delta = 1e-3
    right = SkellamShares(noise=3.0, clip=9.0, step=1.0, width=1, fewest=3)
    planned = SkellamShares(noise=3.0, clip=9.0, step=1.0, width=1, fewest=12)  # as if all twelve always came
    most, epsilon = math.floor(right.largest_norm), right.epsilon(1, delta)
    assert violation(released(right, most, came, 1), released(right, -most, came, 2), epsilon, delta) <= 0
    too_little = violation(released(planned, most, came, 3), released(planned, -most, came, 4), epsilon, delta)
    assert (too_little > 0) == (came < 12)


def test_noise_scaled_wrongly_is_found():
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    claimed = SkellamShares(noise=3.0, clip=9.0, step=1.0, width=1, fewest=3).epsilon(1, 1e-3)
    wrong = SkellamShares(noise=1.5, clip=9.0, step=1.0, width=1, fewest=3)  # as if a row moved by the norm only
    assert violation(released(wrong, 10, 3, 1), released(wrong, -10, 3, 2), claimed, 1e-3) > 0


def test_rows_that_the_noise_is_not_made_for_are_refused():
    shares = SkellamShares(noise=1.0, clip=3.0, step=1.0, width=4, fewest=2)
    assert shares.add_noise(torch.tensor([[3, 3, 2, 1]])).shape == (1, 4)
    with pytest.raises(FedloomError, match="clip updates before"):
        shares.add_noise(torch.tensor([[4, 4, 0, 0]]))
    with pytest.raises(FedloomError, match="rows of 4 integers"):
        shares.add_noise(torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(FedloomError, match="int64"):
        shares.add_noise(torch.zeros(2, 4))


@pytest.mark.parametrize("settings", [{"noise": 0.0}, {"clip": math.inf}, {"step": -1.0}, {"width": 0}, {"fewest": 0}])
def test_settings_that_protect_nobody_are_refused(settings):
    given = {"noise": 1.0, "clip": 1.0, "step": 1.0, "width": 1, "fewest": 1, **settings}
    with pytest.raises(FedloomError, match="noise shares"):
        SkellamShares(**given)
