"""Numbers of the operating system's generator are distributed as they should be."""

import numpy as np
import pytest
from scipy.stats import kstest
from scipy.stats import poisson as scipy_poisson

from fedloom.core.errors import FedloomError
from fedloom.privacy.secure_random import poisson, secure_normal, secure_uniform


def test_uniform_numbers_are_uniform_and_never_zero():
    numbers = secure_uniform(20_000)
    assert kstest(numbers, "uniform").pvalue > 1e-5
    assert numbers.min() > 0
    assert numbers.max() <= 1


def test_normal_numbers_are_normal_and_independent():
    numbers = secure_normal(20_001).numpy()
    assert numbers.shape == (20_001,)
    assert kstest(numbers, "norm").pvalue > 1e-5
    halves = np.corrcoef(numbers[:10_000], numbers[10_001:20_001])[0, 1]
    assert abs(halves) < 0.05


def test_nobody_can_repeat_them():
    assert secure_normal(4).tolist() != secure_normal(4).tolist()


@pytest.mark.parametrize("mean", [0.0, 0.3, 9.9, 10.0, 47.5, 1e4])
def test_poisson_numbers_have_their_distribution(mean):
    drawn = poisson(mean, 20_000)
    assert (drawn >= 0).all()
    if mean == 0:
        assert not drawn.any()
        return
    for chance in (0.01, 0.2, 0.5, 0.8, 0.99):
        quantile = scipy_poisson.ppf(chance, mean)
        expected = scipy_poisson.cdf(quantile, mean)
        spread = 5 * np.sqrt(expected * (1 - expected) / 20_000) + 1e-9
        assert (drawn <= quantile).mean() == pytest.approx(expected, abs=spread)


def test_poisson_numbers_of_a_huge_mean_are_nearly_normal():
    mean = 2.0**45
    assert kstest((poisson(mean, 20_000) - mean) / np.sqrt(mean), "norm").pvalue > 1e-5


def test_poisson_numbers_too_large_for_exact_arithmetic_are_refused():
    with pytest.raises(FedloomError, match="coarser grid"):
        poisson(2.0**51, 1)
