"""Per-example differential privacy of local training (DP-SGD): its settings.

Abadi et al., Deep Learning with Differential Privacy, CCS 2016, https://arxiv.org/abs/1607.00133: every step draws a
client's samples independently, clips the gradient of each to a norm, adds them and Gaussian noise, and divides by the
number of samples that a step has on average. Whatever a client then sends is protected, also from the server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedloom.core.errors import FedloomError


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

    noise: float = 1.0
    clip: float = 1.0
    delta: float = 1e-5
    epsilon: float | None = None
    seeded: bool = False

    def __post_init__(self) -> None:
        for name in ("noise", "clip"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise FedloomError(
                    f"sample_privacy: {name}={value}: it must be a positive number, or there is no privacy at all."
                )
        if not 0 < self.delta < 1:
            raise FedloomError(f"sample_privacy: delta={self.delta}: it is a probability above 0 and below 1.")
        if self.epsilon is not None and not 0 < self.epsilon < math.inf:
            raise FedloomError(f"sample_privacy: epsilon={self.epsilon}: the budget must be a positive number.")
