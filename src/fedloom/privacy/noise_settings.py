"""Settings of noise: what protects nobody is refused."""

from __future__ import annotations

import math

from fedloom.core.errors import FedloomError

LEAST_NOISE, LARGEST_NOISE = 1e-12, 1e6
"""Noise is a deviation divided by a clip norm; outside of these bounds accounting is not possible, and useless."""


SCORES = (
    "protects what clients send, and not scores: set eval_every = 0, and evaluate the model at the sites afterwards"
)
"""Why noise of clients' own needs that no score leaves them."""


def check_noise(name: str, noise: float) -> None:
    """Refuse noise of which nobody can say what it protects.

    Args:
        name: What the user calls the noise.
        noise: Its deviation, divided by the clip norm.
    """
    if not LEAST_NOISE <= noise <= LARGEST_NOISE:
        raise FedloomError(
            f"{name}={noise}: it must be a number from {LEAST_NOISE:g} to {LARGEST_NOISE:,.0f} (times the clip norm): "
            "with less there is no privacy at all, and with more nothing but noise."
        )


def check_noise_settings(name: str, delta: float, epsilon: float | None, noise: float, **positive: float) -> None:
    """Refuse settings of a noise that would protect nobody.

    Args:
        name: What the user calls the noise.
        delta: The probability with which epsilon may not hold.
        epsilon: The budget; None for none.
        noise: The deviation of the noise, divided by the clip norm.
        positive: Other settings that must be positive numbers, such as the clip norm.
    """
    check_noise(f"{name}: noise", noise)
    for setting, value in positive.items():
        if not 0 < value < math.inf:
            raise FedloomError(
                f"{name}: {setting}={value}: it must be a positive number, or there is no privacy at all."
            )
    if not 0 < delta < 1:
        raise FedloomError(f"{name}: delta={delta}: it is a probability above 0 and below 1.")
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise FedloomError(f"{name}: epsilon={epsilon}: the budget must be a positive number.")
