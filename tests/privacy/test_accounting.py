"""The ledger against published figures, a second accountant, a closed form, and its own inverse."""

import math

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from fedloom.core.errors import FedloomError
from fedloom.privacy.accounting import RenyiDivergence, epsilon_after, noise_for
from fedloom.privacy.sampling import EveryClient, FixedSize, PoissonChains, PoissonDraw

pytest.importorskip("dp_accounting", reason="needs dp-accounting")


@pytest.mark.parametrize(("noise", "epsilon"), [(1.0, 1.828), (1.1, 1.515)])
def test_published_figures_of_poisson_sampling(noise, epsilon):
    assert epsilon_after(PoissonDraw(0.01), noise, 1000, 1e-5) == pytest.approx(epsilon, abs=1e-3)


def test_chains_are_replaced_not_added():
    assert epsilon_after(PoissonChains(0.01), 1.1, 1000, 1e-5) == pytest.approx(2.478, abs=1e-3)


def test_a_fixed_number_of_clients_spends_what_half_of_the_noise_does():
    """The library's own number for it, 3.2, leaves out that one client goes and another comes."""
    assert epsilon_after(FixedSize(10, 1000), 1.1, 1000, 1e-5) == pytest.approx(15.57, abs=0.01)


@pytest.mark.parametrize("noise", [0.8, 1.0, 1.5, 4.0])
@pytest.mark.parametrize("sampling", [PoissonDraw(0.01), PoissonDraw(0.2), EveryClient()])
@pytest.mark.slow
def test_renyi_says_more_and_not_much_more(sampling, noise):
    spent = epsilon_after(sampling, noise, 100, 1e-5)
    second = RenyiDivergence(sampling, noise).epsilon(100, 1e-5)
    assert spent <= second <= 1.35 * spent + 0.3


def gaussian(noise: float, rounds: int, delta: float) -> float:
    """The exact epsilon of a Gaussian mechanism, which rounds of all clients are (Balle and Wang, 2018)."""
    mu = math.sqrt(rounds) / noise

    def excess(epsilon: float) -> float:
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return brentq(excess, 0, 100)


@pytest.mark.parametrize(("noise", "rounds"), [(1.0, 1), (10.0, 100), (5.0, 20)])
def test_rounds_of_all_clients_have_a_closed_form(noise, rounds):
    exact = gaussian(noise, rounds, 1e-5)
    assert epsilon_after(EveryClient(), noise, rounds, 1e-5) == pytest.approx(exact, rel=1e-3)
    assert epsilon_after(PoissonDraw(1.0), noise, rounds, 1e-5) == pytest.approx(exact, rel=1e-3)
    replaced = gaussian(noise / 2, rounds, 1e-5)
    assert epsilon_after(PoissonChains(1.0), noise, rounds, 1e-5) == pytest.approx(replaced, rel=1e-3)


@pytest.mark.slow
def test_rounds_in_order_and_in_one_jump_are_the_same_to_the_bit():
    sampling = PoissonDraw(0.07)
    one_by_one = [epsilon_after(sampling, 0.93, number, 1e-6) for number in range(1, 9)]
    assert one_by_one == sorted(one_by_one)
    assert epsilon_after(sampling, 0.93, 30, 1e-6) > one_by_one[-1]
    assert epsilon_after(sampling, 0.93, 8, 1e-6) == one_by_one[-1]


def test_two_sums_of_the_same_clients_need_more_noise():
    twice = epsilon_after(PoissonDraw(0.05), math.sqrt(2), 50, 1e-5, mechanisms=2)
    assert twice == pytest.approx(epsilon_after(PoissonDraw(0.05), 1.0, 50, 1e-5))


@pytest.mark.parametrize("epsilon", [0.5, 2.0, pytest.param(20.0, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_the_noise_for_a_budget_keeps_to_it_and_a_little_less_does_not(epsilon):
    sampling = PoissonDraw(0.05)
    noise = noise_for(sampling, epsilon, 100, 1e-5)
    assert epsilon_after(sampling, noise, 100, 1e-5) <= epsilon
    assert epsilon_after(sampling, 0.99 * noise, 100, 1e-5) > epsilon


def test_nothing_played_spends_nothing_and_no_noise_protects_nobody():
    assert epsilon_after(PoissonDraw(0.1), 1.0, 0, 1e-5) == 0
    assert epsilon_after(PoissonDraw(0.1), 0.0, 1, 1e-5) == math.inf


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: epsilon_after(PoissonDraw(0.1), 1.0, 1, 0.0), "delta=0.0: it must be above 0 and less than 1"),
        (lambda: epsilon_after(PoissonDraw(0.1), -1.0, 1, 1e-5), "at least 1e-12"),
        (lambda: epsilon_after(PoissonDraw(0.1), math.nan, 1, 1e-5), "finite number"),
        (lambda: noise_for(PoissonDraw(0.1), 0.0, 1, 1e-5), "epsilon=0.0: it must be above 0"),
        (lambda: noise_for(PoissonDraw(0.1), 1e-9, 100, 1e-12), "larger epsilon"),
        (lambda: noise_for(FixedSize(3, 10), 1e100, 100, 1e-5), "does not protect anybody: plan a smaller one"),
        (lambda: PoissonDraw(0.0), "above 0"),
        (lambda: FixedSize(5, 3), "at most all"),
    ],
)
def test_what_means_nothing_is_refused(call, said):
    with pytest.raises(FedloomError, match=said):
        call()
