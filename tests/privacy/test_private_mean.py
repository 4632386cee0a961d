"""The noisy mean: its sum, its noise, its clip norm, and what an attacker can tell from it at most."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from fedloom.core.errors import FedloomError
from fedloom.privacy.private_mean import PrivateMean
from support.aggregations import aggregate, aggregation_context, honest_rows
from support.distinguishing import violation


def test_without_noise_it_is_the_clipped_sum_over_the_expected_number():
    found = aggregate(PrivateMean(noise=1e-12, clip=1.0), [[3.0, 4.0], [0.3, 0.0]], [0.9, 0.1], expected=4.0)
    assert found.tolist() == pytest.approx([(0.6 + 0.3) / 4, 0.8 / 4])


def test_where_clients_started_is_added():
    start = torch.tensor([10.0, 20.0])
    found = aggregate(PrivateMean(noise=1e-12, clip=5.0), [[13.0, 24.0]], origin=start, expected=1.0)
    assert found.tolist() == pytest.approx([13.0, 24.0])


@pytest.mark.parametrize("seeded", [True, False])
def test_the_noise_has_the_deviation_that_the_ledger_counts_whoever_came(seeded):
    """One client came where ten were expected: the noise is that of ten, over ten."""
    found = aggregate(PrivateMean(noise=2.0, clip=3.0, seeded=seeded), torch.zeros(1, 20_000), expected=10.0)
    assert kstest((found / (2.0 * 3.0 / 10)).numpy(), "norm").pvalue > 1e-4


def test_noise_of_a_seed_repeats_and_that_of_the_system_does_not():
    rows = honest_rows(3, 50, 0)
    one, two = (aggregate(PrivateMean(seeded=True), rows, expected=3.0, reply="row") for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, aggregate(PrivateMean(seeded=True), rows, expected=3.0, reply="head"))
    one, two = (aggregate(PrivateMean(), rows, expected=3.0) for _ in range(2))
    assert not torch.equal(one, two)


RUNS = 10_000


def released(rule: PrivateMean, rows: list[list[float]]) -> np.ndarray:
    """What many independent runs of one round release, where ten clients were expected."""
    given, context = torch.tensor(rows), aggregation_context(expected=10.0)
    return np.array([float(rule(given, torch.ones(len(given)), context)) for _ in range(RUNS)])


@pytest.mark.slow
def test_an_attacker_tells_a_client_no_better_than_epsilon_allows():
    """The best test of whether a client was there, with the real noise; fewer clients came than were planned."""
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    from fedloom.privacy.accounting import epsilon_after
    from fedloom.privacy.sampling import EveryClient

    delta = 1e-3
    epsilon = epsilon_after(EveryClient(), 1.0, 1, delta)
    with_client, without = [[0.2], [-0.1], [1.0]], [[0.2], [-0.1]]
    right, wrong = PrivateMean(noise=1.0), PrivateMean(noise=0.3)  # as if scaled by the 3 who came, not by 10
    assert violation(released(right, with_client), released(right, without), epsilon, delta) <= 0
    assert violation(released(wrong, with_client), released(wrong, without), epsilon, delta) > 0


def test_the_clip_norm_moves_towards_its_quantile():
    memory: dict[str, torch.Tensor] = {}
    rule = PrivateMean(noise=1.0, clip=0.1, quantile=0.5)
    rows = torch.cat([torch.full((50, 1), 1.0), torch.full((50, 1), 3.0)])
    for _ in range(60):
        aggregate(rule, rows, expected=100.0, memory=memory)
    assert 0.8 <= float(memory["clip"]) <= 3.3


def test_one_step_of_the_clip_norm_by_hand(monkeypatch):
    monkeypatch.setattr(PrivateMean, "_normal", lambda *given: torch.zeros(given[2]))
    memory: dict[str, torch.Tensor] = {}
    rule = PrivateMean(noise=0.1, clip=2.0, quantile=0.5, rate=0.2)
    aggregate(rule, [[1.0], [3.0], [1.5], [0.5]], expected=4.0, memory=memory)
    assert float(memory["clip"]) == pytest.approx(2.0 * math.exp(-0.2 * (3 / 4 - 0.5)))


def test_the_noise_beside_a_count_spends_as_much_as_the_noise_alone():
    rule = PrivateMean(noise=1.0, quantile=0.5)
    beside, count = rule.noise_beside_a_count(100.0), 100 / 20
    assert beside**-2 + count**-2 == pytest.approx(1.0)
    with pytest.raises(FedloomError, match="draw more clients"):
        rule.noise_beside_a_count(5.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"noise": 0.0},
        {"noise": -1.0},
        {"noise": math.nan},
        {"clip": 0.0},
        {"clip": math.inf},
        {"delta": 0.0},
        {"delta": 1.0},
        {"epsilon": 0.0},
        {"quantile": 1.0},
        {"rate": 0.0},
    ],
)
def test_settings_that_protect_nobody_are_refused(settings):
    with pytest.raises(FedloomError, match="privatemean"):
        PrivateMean(**settings)


def test_rows_whose_clients_nobody_counted_are_refused():
    with pytest.raises(FedloomError, match="how clients are drawn"):
        aggregate(PrivateMean(), [[1.0]])
