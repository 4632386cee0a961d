"""Ledgers of single clients: published numbers, the largest of many clients, and budgets."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from fedloom.privacy.accounting import epsilon_after
from fedloom.privacy.client_ledger import LocalLedger, SampleLedger
from fedloom.privacy.sampling import PoissonDraw

pytest.importorskip("dp_accounting", reason="needs dp-accounting")


def gaussian_epsilon(ratio: float, delta: float) -> float:
    """The epsilon of the Gaussian mechanism in closed form; ``ratio`` is sensitivity over deviation.

    Balle and Wang, Improving the Gaussian Mechanism for Differential Privacy, ICML 2018, theorem 8.
    """

    def excess(epsilon: float) -> float:
        above = norm.cdf(ratio / 2 - epsilon / ratio)
        return float(above - math.exp(epsilon) * norm.cdf(-ratio / 2 - epsilon / ratio) - delta)

    return float(brentq(excess, 0, 200))


def test_dp_sgd_spends_what_is_published():
    """10 of 1,000 samples per step, 1,000 steps: the known 1.828 at noise 1, and never less than the finer grid."""
    ledger = SampleLedger(1.0, 1e-5, batch_size=10)
    assert ledger.epsilon(1000, 1000) == pytest.approx(1.828, rel=2e-3)
    assert ledger.epsilon(1000, 1000) >= epsilon_after(PoissonDraw(0.01), 1.0, 1000, 1e-5)


@pytest.mark.parametrize("uses", [1, 5, 40])
def test_local_noise_spends_the_closed_form_for_twice_the_clip_norm(uses):
    expected = gaussian_epsilon(2 / 4.0 * math.sqrt(uses), 1e-5)
    assert LocalLedger(4.0, 1e-5).epsilon(0, uses) == pytest.approx(expected, rel=2e-3)
    assert LocalLedger(4.0, 1e-5, mechanisms=2).epsilon(0, uses) == pytest.approx(
        gaussian_epsilon(2 / 4.0 * math.sqrt(2 * uses), 1e-5), rel=2e-3
    )


def test_full_batches_spend_the_closed_form():
    ledger = SampleLedger(3.0, 1e-5, batch_size=0)
    assert ledger.epsilon(77, 9) == pytest.approx(gaussian_epsilon(math.sqrt(9) / 3.0, 1e-5), rel=2e-3)


class Monotone(SampleLedger):
    """An epsilon that grows with the rate and with the uses, and costs nothing to compute."""

    def epsilon(self, samples: int, uses: int) -> float:
        return uses**0.5 / samples**0.7


@given(st.lists(st.tuples(st.integers(5, 60), st.integers(0, 30)), min_size=1, max_size=30))
def test_the_largest_is_found_without_looking_at_all(clients):
    ledger = Monotone(1.5, 1e-5, batch_size=5)
    samples, uses = zip(*clients, strict=True)
    assert ledger.spent(samples, uses) == max(ledger.epsilon(*client) for client in clients)


def test_clients_over_their_budget_are_named():
    ledger = SampleLedger(1.0, 1e-5, batch_size=10, budget=2.0)
    samples, uses = [1000, 1000, 10], [1000, 2000, 1]
    assert ledger.over_budget(samples, uses) == {1, 2}
    assert ledger.over_budget(samples[:1], uses[:1]) == set()


def test_nothing_used_is_nothing_spent_and_next_to_no_noise_is_no_privacy():
    assert SampleLedger(1.0, 1e-5, 10).spent([100], [0]) == 0
    assert SampleLedger(1e-6, 1e-5, 10).spent([100], [1]) == math.inf
