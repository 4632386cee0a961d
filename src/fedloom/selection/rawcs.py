"""RAWCS: resource-aware selection by battery, speed and link; devices with a less accurate model are drawn more often.

The selector of Capanema et al. (FedPredict with client selection), after the levels of their paper and their public
code. A device is eligible if it keeps enough battery, is fast enough and has a good enough link in this round. An
eligible device takes part with probability 1 - cost ** (1 - accuracy), where cost = 0.33 ((1 - battery) + latency +
(1 - link)), each between 0 and 1. The battery bound is a share of the full battery, as in their device profiles. Their
code overwrites the level's latency bound, fixes the link at 1 and leaves the accuracy at 0. Here the level's bound
applies, the link is that of the round, and the accuracy is that of the current model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError, Stopped
from fedloom.core.facts import Fact, Facts
from fedloom.core.selector import Choice, Pool
from fedloom.core.settings import Positive, PositiveShare, check_settings
from fedloom.core.task import Task
from fedloom.selection.devices import Array, Devices, Mask, draw_devices


class Level(NamedTuple):
    """Bounds of eligibility (link, time relative to the slowest device, battery), and the default ``fraction``."""

    link: float
    latency: float
    battery: float
    share: float


LEVELS = {
    "high": Level(0.01, 7.0, 0.05, 0.7),
    "medium": Level(0.05, 0.4, 0.35, 0.5),
    "low": Level(0.5, 0.5, 0.45, 0.3),
}
"""As in the paper: medium is stricter on time than low, and high does not bound the time."""
WEIGHT = 0.33
ARRIVES = 0.2
"""An upload over a link weaker than this fails."""


@dataclass(frozen=True)
class RAWCS:
    """Draw devices with enough battery, speed and bandwidth; their number varies from round to round.

    Args:
        level: The bounds on battery, speed and link.
        fraction: The share of the eligible devices that take part in round 1 and in rounds in which no device is drawn;
            None is 0.7 (high), 0.5 (medium) or 0.3 (low).
        expected: The number of devices that are drawn on average from round 2 on, to which their probabilities are
            scaled; None leaves these as they are. The cells of the paper's tables imply 5.3 (high), 4.7 (medium) and
            4.2 (low) of 20.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    needs: ClassVar[Facts] = {
        Fact.SINGLE_CLIENTS: "selects single devices, to whom batteries and links belong: use random or powerofchoice"
    }

    level: Literal["high", "medium", "low"] = "high"
    fraction: PositiveShare | None = None
    expected: Positive | None = None

    def __post_init__(self) -> None:
        check_settings(self)

    def check(self, clients: int, task: Task, algorithm: Algorithm) -> None:
        """Refuse tasks without an accuracy, which the selection depends on, and methods that select groups."""
        if task.objective.score != "accuracy":
            raise FedloomError(
                f"selection 'rawcs' weighs devices by accuracy, but this task has {task.score_name}: "
                "use random or powerofchoice."
            )

    def __call__(self, pool: Pool) -> Choice:
        """Select devices, and report those whose uploads fail as lost. If all uploads fail, the server tries again."""
        devices = draw_devices(pool.generator("devices", 0), pool.samples.double().numpy())
        battery = pool.state["battery"].numpy() if "battery" in pool.state else devices.charge
        links, rng, worked = pool.generator("links"), pool.generator("selection"), np.zeros(pool.size, dtype=bool)
        arrived = worked
        while not arrived.any():
            link = links.random(pool.size)
            now = self._draw(pool, devices, battery, link, rng)
            battery, worked = devices.after_round(battery, now), worked | now
            arrived = now & (link >= ARRIVES)
        places, lost = (np.flatnonzero(some).tolist() for some in (arrived, worked & ~arrived))
        return Choice(places, {"battery": torch.from_numpy(battery)}, lost)

    def _draw(self, pool: Pool, devices: Devices, battery: Array, link: Array, rng: np.random.Generator) -> Mask:
        """Draw eligible devices; if none is drawn, take the least accurate eligible (or at least charged) ones."""
        level, time = LEVELS[self.level], devices.latency / devices.latency.max()
        charged = battery - devices.energy >= level.battery * devices.capacity
        if not charged.any():
            raise Stopped(
                f"no device has battery left in round {pool.round}: level '{self.level}' keeps {level.battery:.0%} "
                "of each battery; run fewer rounds, or choose a higher level."
            )
        eligible = charged & (link >= level.link) & (time <= level.latency)
        able = np.flatnonzero(eligible if eligible.any() else charged)
        share = max(1, round((self.fraction or level.share) * len(able)))
        if pool.round == 1:
            return np.isin(np.arange(pool.size), rng.choice(able, share, replace=False))
        accuracy = np.zeros(pool.size)
        accuracy[able] = pool.ask(able.tolist()).score
        cost = WEIGHT * ((1 - battery / devices.capacity) + time + (1 - link))
        chance = np.where(eligible, 1 - cost ** (1 - accuracy), 0.0)
        if self.expected is not None:
            chance = scale_to(chance, self.expected)
        drawn: Mask = rng.random(pool.size) < chance
        if drawn.any():
            return drawn
        least = able[np.argsort(accuracy[able], kind="stable")[:share]]
        return np.isin(np.arange(pool.size), least)


def scale_to(chance: Array, expected: float) -> Array:
    """Probabilities multiplied by one number, at most 1 each, so that their sum is the expected number.

    Where fewer devices than that have a chance at all, each of them is drawn.

    Args:
        chance: The probability of each device.
        expected: How many devices are to be drawn on average.
    """
    able = chance > 0
    if able.sum() <= expected:
        return able.astype(np.float64)
    full = np.zeros(len(chance), dtype=bool)
    while True:  # who passes 1 is cut to it, and the others share what is left: at most a step per device
        rest = able & ~full
        left = expected - full.sum()
        scaled = np.where(full, 1.0, np.where(rest, chance * (left / chance[rest].sum()), 0.0))
        over = rest & (scaled > 1)
        if not over.any():
            return scaled
        full |= over
