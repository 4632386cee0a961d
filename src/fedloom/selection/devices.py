"""Battery-powered devices: the time and energy that a round costs each of them.

The device model follows the public code of RAWCS (Capanema et al.): phone batteries, 2.1 to 5.1 watts while training,
2.22 watts while sending over 5G, 0.1 watts while idle. In that code training takes 0.005 to 21 seconds on CIFAR-10, and
sending takes 5 to 6.1 seconds. Here the training time is relative to the mean client size, so that a data set of any
size has slow and fast devices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

BATTERIES = (3500, 4000, 4500, 5000)
"""Battery capacities in mAh."""
VOLTS = 3.85
SENDING_POWER, IDLE_POWER = 2.22, 0.1
FASTEST, SLOWEST = 0.4, 16.0
"""Training time in seconds for a client of average size; drawn log-uniformly between these bounds."""


@dataclass(frozen=True)
class Devices:
    """One device per client: battery capacity and initial charge (joules), training power (watts), times (seconds)."""

    capacity: Array
    charge: Array
    power: Array
    training: Array
    sending: Array

    @property
    def latency(self) -> Array:
        """The time of a round on each device, in seconds."""
        return self.training + self.sending

    @property
    def energy(self) -> Array:
        """The energy of a round on each device, in joules."""
        return self.power * self.training + SENDING_POWER * self.sending

    def after_round(self, battery: Array, workers: Mask) -> Array:
        """The charge after a round: ``workers`` spend energy, and every device idles until the slowest is done."""
        busy = np.where(workers, self.latency, 0.0)
        spent = np.where(workers, self.energy, 0.0) + IDLE_POWER * (busy.max() - busy)
        left: Array = np.maximum(battery - spent, 0.0)
        return left


def draw_devices(rng: np.random.Generator, samples: Array) -> Devices:
    """Draw one device for each client; ``samples`` are the clients' numbers of samples."""
    clients = len(samples)
    capacity = rng.choice(BATTERIES, clients) / 1000 * VOLTS * 3600
    charge = capacity * rng.integers(30, 101, clients) / 100
    power = IDLE_POWER + rng.uniform(2.0, 5.0, clients)
    slowness = np.exp(rng.uniform(math.log(FASTEST), math.log(SLOWEST), clients))
    sending = rng.uniform(5.0, 6.1, clients)
    return Devices(capacity, charge, power, slowness * samples / samples.mean(), sending)
