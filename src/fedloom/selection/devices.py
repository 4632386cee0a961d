"""Battery-powered devices: what taking part in a round costs them in time and energy.

The model is the one behind RAWCS in Capanema et al.'s public code: phone batteries, a power between 2.1 and 5.1 watts
while training, 2.22 watts while sending over 5G, 0.1 watts while idle. There, training takes between 0.005 and 21
seconds on CIFAR-10 and sending between 5 and 6.1. Here the time of training is relative to the federation's mean size,
so that a data set of any size has slow and fast devices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

BATTERIES = (3500, 4000, 4500, 5000)
"""In mAh."""
VOLTS = 3.85
SENDING_POWER, IDLE_POWER = 2.22, 0.1
FASTEST, SLOWEST = 0.4, 16.0
"""Seconds of training on an average client's data, log-uniform between."""


@dataclass(frozen=True)
class Devices:
    """A device per client: battery capacity and first charge (joules), power (watts), and times (seconds)."""

    capacity: Array
    charge: Array
    power: Array
    training: Array
    sending: Array

    @property
    def latency(self) -> Array:
        """How long a round takes each device."""
        return self.training + self.sending

    @property
    def energy(self) -> Array:
        """What a round costs each device, in joules."""
        return self.power * self.training + SENDING_POWER * self.sending

    def after_round(self, battery: Array, workers: Mask) -> Array:
        """The batteries after some devices took part and all idled until the slowest of those was done."""
        busy = np.where(workers, self.latency, 0.0)
        spent = np.where(workers, self.energy, 0.0) + IDLE_POWER * (busy.max() - busy)
        left: Array = np.maximum(battery - spent, 0.0)
        return left


def draw_devices(luck: np.random.Generator, samples: Array) -> Devices:
    """Devices at random, for clients with so many samples."""
    clients = len(samples)
    capacity = luck.choice(BATTERIES, clients) / 1000 * VOLTS * 3600
    charge = capacity * luck.integers(30, 101, clients) / 100
    power = IDLE_POWER + luck.uniform(2.0, 5.0, clients)
    slowness = np.exp(luck.uniform(math.log(FASTEST), math.log(SLOWEST), clients))
    sending = luck.uniform(5.0, 6.1, clients)
    return Devices(capacity, charge, power, slowness * samples / samples.mean(), sending)
