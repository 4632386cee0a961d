"""The settings of DP-SGD."""

import math

import pytest

from fedloom.core.errors import FedloomError
from fedloom.privacy.sample_privacy import SamplePrivacy
from fedloom.privacy.sampling import sampling_rate


@pytest.mark.parametrize(
    "settings",
    [
        {"noise": 0.0},
        {"noise": math.nan},
        {"clip": -1.0},
        {"clip": math.inf},
        {"delta": 0.0},
        {"delta": 1.0},
        {"epsilon": 0.0},
        {"epsilon": math.inf},
    ],
)
def test_settings_that_protect_nobody_are_refused(settings):
    with pytest.raises(FedloomError, match="sample_privacy"):
        SamplePrivacy(**settings)


@pytest.mark.parametrize(("samples", "batch", "rate"), [(100, 20, 0.2), (10, 20, 1.0), (10, 0, 1.0), (3, 2, 2 / 3)])
def test_the_rate_is_the_expected_share(samples, batch, rate):
    assert sampling_rate(samples, batch) == pytest.approx(rate)
