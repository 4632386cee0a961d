"""Whether one method is better than others: paired differences over seeds, and Student's t.

Methods run with the same seeds, so they share each seed's partition, initial model and selection. What they share
cancels in the difference of their scores, seed by seed, and the differences are tested with Student's t (two-sided,
5 %): more seeds always help. One seed tests nothing, because another seed may differ.

The method with the best mean leads, and its lead over each rival is tested. The leader was chosen by the same numbers,
so each of the K methods could have been the one that leads: the smallest p-value must stand for all K (K - 1) / 2 pairs
of methods. It then continues as in Holm's procedure (A simple sequentially rejective multiple test procedure,
Scandinavian Journal of Statistics 1979): each rival that the leader is clear of leaves the race, and the next p-value
stands for the pairs of those that are left. With K equal methods, a lead over any of them is called established in at
most 5 % of cases. Counting rivals instead of pairs would give 13 % with ten equal methods.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Values = Mapping[Hashable, float]
"""A score for each unit: a seed, or a client. Higher is better."""

LEVEL = 0.95
"""How sure an established lead is."""
SURE = (1 + LEVEL) / 2
"""The probability of being better from which on, or up to one minus which, two methods are told apart."""
LEAST_SEEDS = 3
"""Fewer seeds than this establish nothing: two differences of one sign say little about the next."""
ROUNDING = 1e-12
"""Differences below this are rounding errors."""


@dataclass(frozen=True)
class Lead:
    """The leader's lead over a rival.

    Args:
        rival: The rival's name.
        gap: The mean difference over the units that both have.
        low: The lower end of its interval; None where there are fewer than two units.
        high: The upper end.
        p: The p-value, corrected for the number of methods.
        units: How many units both have.
    """

    rival: str
    gap: float
    low: float | None
    high: float | None
    p: float
    units: int

    @property
    def is_established(self) -> bool:
        """Whether the leader is better than this rival."""
        return self.p <= 1 - LEVEL

    def row(self, unit: str) -> dict[str, Any]:
        """Its numbers under the names that tables and ``--json`` have.

        Args:
            unit: What was paired, in the plural.
        """
        ends = {"low": self.low, "high": self.high}
        return {"lead": self.gap, **ends, "p": self.p, unit: self.units, "established": self.is_established}


@dataclass(frozen=True)
class Race:
    """The leader of some methods and its leads, the nearest rival first."""

    leader: str
    leads: tuple[Lead, ...]

    @property
    def level(self) -> list[str]:
        """The rivals that cannot be told apart from the leader."""
        return [lead.rival for lead in self.leads if not lead.is_established]

    def basis(self, unit: str) -> str:
        """What was tested: ``paired over 5 seeds, Holm over 6 pairs, 95 %``.

        Args:
            unit: What was paired, in the plural.
        """
        fewest, most = (pick(lead.units for lead in self.leads) for pick in (min, max))
        count = f"{most}" if fewest == most else f"{fewest} to {most}"
        pairs = len(self.leads) * (len(self.leads) + 1) // 2
        holm = f"Holm over {pairs} pairs, " if pairs > 1 else ""
        return f"paired over {count} {unit}, {holm}{100 * LEVEL:.0f} %"


def race(scores: Mapping[str, Values], least: int = 2) -> Race:
    """Test the lead of the method with the best mean over each of the others.

    Args:
        scores: The score of each method in each unit; at least two methods.
        least: How many units two methods must share for a lead to be established.
    """
    names = list(scores)
    units = sorted({unit for values in scores.values() for unit in values}, key=repr)
    table = np.array([[scores[name].get(unit, np.nan) for unit in units] for name in names], dtype=np.float64)
    leader, p, pairs = lead_p_values(table)
    gaps = table[leader] - table
    leads = []
    for place in np.argsort(-np.nanmean(table, axis=1), kind="stable").tolist():
        if place != leader:
            own = gaps[place][~np.isnan(gaps[place])]
            gap = float(own.mean()) if len(own) else float(np.nanmean(table[leader]) - np.nanmean(table[place]))
            wide = half_width(own, int(pairs[place]))
            low, high = (None, None) if wide is None else (gap - wide, gap + wide)
            sure = float(p[place]) if len(own) >= least else 1.0
            leads.append(Lead(names[place], gap, low, high, sure, len(own)))
    return Race(names[int(leader)], tuple(leads))


def lead_p_values(table: Floats) -> tuple[NDArray[np.intp], Floats, NDArray[np.intp]]:
    """The leader's place, the corrected p-value of its lead over each method, and how many pairs each stands for.

    Args:
        table: Scores of methods × units, NaN where there is none; axes before these are separate comparisons.
    """
    methods = table.shape[-2]
    leader = np.argmax(np.nanmean(table, axis=-1), axis=-1)
    own = np.take_along_axis(table, leader[..., None, None], axis=-2)
    raw = p_values(own - table)
    np.put_along_axis(raw, leader[..., None], -1.0, axis=-1)  # it comes first, and is not a rival
    order = np.argsort(raw, axis=-1, kind="stable")
    left = np.arange(methods + 1, 1, -1)
    left[0] = 2
    pairs = left * (left - 1) // 2
    corrected = np.minimum(1.0, np.maximum.accumulate(np.take_along_axis(raw, order, axis=-1) * pairs, axis=-1))
    back = np.argsort(order, axis=-1, kind="stable")
    return leader, np.take_along_axis(corrected, back, axis=-1), pairs[back]


def p_values(differences: Floats) -> Floats:
    """The two-sided p-value of Student's t for each row of differences; 1 for fewer than two.

    Differences that are all the same (of scores with few digits) have no spread that t could use: their p-value is
    that of their common sign, 2 ** (1 - n).

    Args:
        differences: Paired differences along the last axis, NaN where there is none.
    """
    from scipy.special import stdtr

    there = ~np.isnan(differences)
    count = there.sum(axis=-1)
    some = np.maximum(count, 1)
    mean = np.where(there, differences, 0.0).sum(axis=-1) / some
    squares = np.where(there, (differences - mean[..., None]) ** 2, 0.0).sum(axis=-1)
    error = np.sqrt(squares / np.maximum(count - 1, 1) / some)
    spread = error > ROUNDING
    p = 2 * stdtr(np.maximum(count - 1, 1), -np.abs(mean) / np.where(spread, error, 1.0))
    p = np.where(spread, p, np.where(np.abs(mean) > ROUNDING, 2.0 ** (1 - some), 1.0))
    return np.where(count > 1, p, 1.0)


def half_width(differences: Floats, pairs: int = 1) -> float | None:
    """Half of Student's interval for the mean of some differences; None for fewer than two of them.

    Args:
        differences: Paired differences.
        pairs: How many pairs the interval stands for; each has its share of the error.
    """
    count = len(differences)
    if count < 2:
        return None
    return student_quantile(count, pairs) * float(np.std(differences, ddof=1) / np.sqrt(count))


def student_quantile(count: int, pairs: int = 1) -> float:
    """How many standard errors an interval for the mean of some differences reaches to each side.

    Args:
        count: How many differences there are, two at least.
        pairs: How many pairs the interval stands for; each has its share of the error.
    """
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, 1 - (1 - LEVEL) / 2 / pairs))


def probability_better(differences: Sequence[float], comparisons: int = 1) -> float | None:
    """The probability, given paired differences, that their mean is above 0; None for fewer than two.

    It is one minus half the p-value if their mean is above 0, so 0.975 is 95 % sure. Two equal methods are told apart
    at ``SURE`` in 5 % of cases.

    Args:
        differences: Paired differences.
        comparisons: How many comparisons are made at once; the p-value is multiplied by it.
    """
    if len(differences) < 2:
        return None
    found = np.asarray(differences, dtype=np.float64)
    half = min(1.0, comparisons * float(p_values(found))) / 2
    return 1 - half if found.mean() > 0 else half
