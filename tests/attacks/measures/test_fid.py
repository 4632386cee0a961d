"""The Fréchet distance against closed forms, and what it must order."""

import pytest
import torch
from scipy.linalg import sqrtm

from fedloom.attacks.measures.fid import fid, frechet_distance


def gaussian(size, seed):
    draws = torch.Generator().manual_seed(seed)
    mixed = torch.randn(size, size, generator=draws, dtype=torch.float64)
    return torch.randn(size, generator=draws, dtype=torch.float64), mixed @ mixed.T


def test_of_independent_features_it_is_the_sum_over_means_and_deviations():
    """tr(A + B - 2 (AB)^1/2) = sum (a - b)² for diagonal covariances a² and b²."""
    one = torch.tensor([1.0, -2.0, 0.5]), torch.diag(torch.tensor([4.0, 1.0, 9.0]))
    other = torch.tensor([0.0, 1.0, 0.5]), torch.diag(torch.tensor([1.0, 25.0, 9.0]))
    assert frechet_distance(*one, *other) == pytest.approx((1 + 9 + 0) + (1 + 16 + 0))


@pytest.mark.parametrize("seed", range(3))
def test_of_dependent_features_it_is_the_matrix_root(seed):
    (mean, covariance), (other_mean, other) = gaussian(5, 2 * seed), gaussian(5, 2 * seed + 1)
    root = torch.from_numpy(sqrtm((covariance @ other).numpy()).real)
    wanted = (mean - other_mean).square().sum() + (covariance + other - 2 * root).trace()
    assert frechet_distance(mean, covariance, other_mean, other) == pytest.approx(float(wanted), rel=1e-9)
    assert frechet_distance(other_mean, other, mean, covariance) == pytest.approx(float(wanted), rel=1e-9)


def test_a_gaussian_is_at_no_distance_from_itself_also_where_features_repeat_each_other():
    mean, covariance = gaussian(3, 0)
    repeated = torch.cat([mean, mean]), covariance.repeat(2, 2)
    assert frechet_distance(*repeated, *repeated) == pytest.approx(0, abs=1e-6)


def test_samples_come_near_the_closed_form():
    draws = torch.Generator().manual_seed(0)
    one, other = (torch.randn(20_000, 4, generator=draws) for _ in range(2))
    assert fid(one, 3 * other + 1) == pytest.approx(4 * (1 + 4), rel=0.03), "four features, 1 away, spread 1 and 3"


def test_it_grows_with_noise_and_two_halves_of_a_set_are_near():
    draws = torch.Generator().manual_seed(1)
    real = torch.randn(2000, 4, generator=draws)
    noise = torch.randn(1000, 4, generator=draws)
    found = [fid(real[:1000], real[1000:] + strength * noise) for strength in (0.0, 0.5, 1.0, 2.0)]
    assert found[0] < 0.05
    assert found == sorted(found)
