"""What the round loop needs to know of a run's privacy, which ``channel.privacy`` implements; settings of noise."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Protocol

from fedloom.core.errors import FedloomError

LEAST_NOISE, LARGEST_NOISE = 1e-12, 1e6
"""Noise is a deviation divided by a clip norm; outside of these bounds accounting is not possible, and useless."""


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


class Privacy(Protocol):
    """What a run spends of its clients' privacy, all of them alike."""

    @property
    def expected(self) -> float:
        """How many clients a round has on average."""

    @property
    def budget(self) -> float | None:
        """The epsilon that the run may spend; None for any."""

    def spent(self, rounds: int) -> float:
        """The epsilon that so many rounds spend."""


class ClientPrivacy(Protocol):
    """What a run spends of single clients' privacy: each client has used it a number of times of its own."""

    def uses(self, steps: int) -> int:
        """How often a client that made so many steps in an exchange has used it.

        Args:
            steps: How many gradient steps it made.
        """

    def mechanism(self, samples: int) -> str:
        """What one use costs depends on, as a text: uses may be added up only where it is the same.

        Args:
            samples: How many training samples the client has.
        """

    def spent(self, samples: Sequence[int], uses: Sequence[int]) -> float:
        """The largest epsilon of any client.

        Args:
            samples: How many training samples each client has.
            uses: How often each of them used it.
        """

    def over_budget(self, samples: Sequence[int], uses: Sequence[int]) -> Collection[int]:
        """The places of the clients who would have spent more than they may.

        Args:
            samples: How many training samples each client has.
            uses: How often each of them would have used it.
        """
