"""Per-example differential privacy of local training (DP-SGD): its settings.

Abadi et al., Deep Learning with Differential Privacy, CCS 2016, https://arxiv.org/abs/1607.00133: every step draws a
client's samples independently, clips the gradient of each to a norm, adds them and Gaussian noise, and divides by the
number of samples that a step has on average. Whatever a client then sends is protected, also from the server.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.settings import OpenShare, Positive, check_settings
from fedloom.privacy.noise_settings import Noise


@dataclass(frozen=True)
class SamplePrivacy:
    """Differential privacy of single samples: local training by DP-SGD.

    Args:
        noise: The deviation of the noise on the sum of a step, divided by the clip norm (the noise multiplier).
        clip: The largest norm of the gradient of one sample.
        delta: The probability with which epsilon may not hold.
        epsilon: The budget of every client: what would exceed it is not sent. None for no budget.
        seeded: Whether samples and noise are drawn from the run's seed, so that the run can be repeated. Whoever knows
            the seed can then subtract the noise: its privacy is for study only.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    noise: Noise = 1.0
    clip: Positive = 1.0
    delta: OpenShare = 1e-5
    epsilon: Positive | None = None
    seeded: bool = False

    def __post_init__(self) -> None:
        check_settings(self, "sample_privacy")


def sampling_rate(samples: int, batch_size: int) -> float:
    """The probability of a sample in a step of DP-SGD.

    Args:
        samples: How many samples the client has.
        batch_size: How many of them a step has on average; more than there are, or 0, means all.
    """
    return min(1.0, batch_size / samples) if batch_size and samples else 1.0
