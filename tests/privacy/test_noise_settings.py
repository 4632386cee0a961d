"""Settings of noise: their bounds hold for every part that adds some, and within them accounting works."""

import math

import pytest

from fedloom.core.errors import FedloomError
from fedloom.privacy.accounting import epsilon_after
from fedloom.privacy.client_ledger import LocalLedger, SampleLedger, SumLedger
from fedloom.privacy.local_noise import LocalNoise
from fedloom.privacy.noise_settings import LARGEST_NOISE, LEAST_NOISE
from fedloom.privacy.private_mean import PrivateMean
from fedloom.privacy.private_sum import PrivateSum
from fedloom.privacy.sample_privacy import SamplePrivacy
from fedloom.privacy.sampling import EveryClient, FixedSize, PoissonDraw


@pytest.mark.parametrize("noise", [1e-200, LEAST_NOISE / 2, 2 * LARGEST_NOISE, 1e300, math.inf, math.nan, 0.0, -1.0])
@pytest.mark.parametrize("part", [LocalNoise, PrivateSum, PrivateMean, SamplePrivacy])
def test_noise_out_of_bounds_is_one_sentence_that_says_both(part, noise):
    with pytest.raises(FedloomError, match=r"noise=.*: it must be (at least 1e-12 and at most 1,000,000|a finite)"):
        part(noise=noise)


@pytest.mark.parametrize("noise", [LEAST_NOISE, LARGEST_NOISE])
def test_at_both_bounds_there_is_an_epsilon(noise):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    ledgers = [
        LocalLedger(LocalNoise(noise=noise).noise, 1e-5),
        SampleLedger(SamplePrivacy(noise=noise).noise, 1e-5, batch_size=10),
        SumLedger(PrivateSum(noise=noise).shares(99, 3), 1e-5),
    ]
    spent = [ledger.epsilon(50, 1) for ledger in ledgers]
    spent += [epsilon_after(drawn, noise, 1, 1e-5) for drawn in (PoissonDraw(0.1), EveryClient(), FixedSize(3, 10))]
    if noise == LEAST_NOISE:
        assert min(spent) > 1e20
    else:
        assert max(spent) < 0.2
