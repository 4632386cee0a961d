"""Splits: a share of each stratum for one side, by whole groups, at random or from its end.

Everything is a few sorts of one vector, without a loop over clients. Shares are shares of samples; a group is on the
side on which the middle of its samples lies.
"""

from __future__ import annotations

import numpy as np

from fedloom.data.leak_groups import Units

TRAIN, VALID, TEST, NOBODY = 0, 1, 2, 3


def _from_end(strata: np.ndarray, numbers: np.ndarray | None, units: Units) -> tuple[np.ndarray, np.ndarray]:
    """How many units of its stratum each unit has behind it, and how many samples up to its own middle.

    Within a stratum units keep their order, or are ordered by ``numbers``.
    """
    counts = np.bincount(strata)
    keys = strata
    if numbers is not None:  # non-negative floats sort like their bits: one sort, not two
        keys = (strata.astype(np.int64) << 32) | numbers.view(np.int32)
    order = np.argsort(keys, kind="stable")
    far = np.empty(len(strata), dtype=np.int32)
    far[order] = np.repeat(np.cumsum(counts, dtype=np.int32), counts) - np.arange(1, len(strata) + 1, dtype=np.int32)
    if len(units.of) == len(units.first):
        return far, far
    sizes = units.sizes[order]
    ends = np.cumsum(np.bincount(strata, units.sizes))
    middle = np.empty(len(strata))
    middle[order] = np.repeat(ends, counts) - np.cumsum(sizes) + (sizes - 1) / 2
    return far, middle


def hold_out(
    pool: np.ndarray,
    strata: np.ndarray,
    share: float,
    group: np.ndarray | None,
    numbers: np.ndarray | None,
    gap: int,
) -> np.ndarray:
    """Take a share of each stratum out of the pool (a mask, changed in place) and return its positions.

    Args:
        pool: Which samples can be taken.
        strata: The stratum of each sample.
        share: The share to take.
        group: The group of each sample, None without groups.
        numbers: A random number per sample; without them the last samples of a stratum are taken.
        gap: How many samples before the last ones of a stratum leave the pool too.
    """
    if share == 0:
        return np.zeros(0, dtype=np.int64)
    inside = np.flatnonzero(pool)
    units = Units.among(None if group is None else group[inside], len(inside))
    numbers = None if numbers is None else numbers[inside[units.first]]
    stratum = strata[inside[units.first]]
    far, middle = _from_end(stratum, numbers, units)
    counts, totals = np.bincount(stratum), np.bincount(stratum, units.sizes)
    take = np.bincount(stratum[middle < np.floor(totals * share + 0.5)[stratum]], minlength=len(counts))
    if take.sum() == 0 and numbers is not None:  # many tiny strata: take from those that can spare a unit
        spare = np.flatnonzero(far < (counts - 2)[stratum])
        inside = inside[np.isin(units.of, spare)]
        units, numbers = Units.among(None if group is None else group[inside], len(inside)), numbers[spare]
        stratum = np.zeros(len(spare), dtype=np.int64)
        far, middle = _from_end(stratum, numbers, units)
        take = np.array([(middle < int(pool.sum() * share + 0.5)).sum()])
    gone = take + np.where(take > 0, gap, 0)
    pool[inside[(far < gone[stratum])[units.of]]] = False
    held: np.ndarray = inside[(far < take[stratum])[units.of]]
    return held


def split(
    strata: np.ndarray,
    group: np.ndarray | None,
    numbers: np.ndarray | None,
    gap: int,
    test_share: float,
    valid_share: float,
) -> np.ndarray:
    """The part (train, valid, test or none) of each sample, decided within each stratum.

    A group with samples of several strata is where the stratum of its first one puts it.

    Args:
        strata: The stratum of each sample, usually its owner.
        group: The group of each sample, None without groups.
        numbers: A random number per sample; without them the last samples of a stratum are for testing.
        gap: How many samples between two parts are in none.
        test_share: The share for testing.
        valid_share: The share for validation.
    """
    units = Units.among(group, len(strata))
    stratum, numbers = strata[units.first], None if numbers is None else numbers[units.first]
    far, middle = _from_end(stratum, numbers, units)
    counts = np.bincount(stratum)
    test, valid = _amounts(stratum, middle, far, units.sizes, test_share, valid_share)
    test = np.where(counts - test - gap < 1, 0, test) if gap else test
    to_valid = test + np.where(test > 0, gap, 0)
    valid = np.where(counts - to_valid - valid - gap < 1, 0, valid) if gap else valid
    to_train = to_valid + valid + np.where(valid > 0, gap, 0)
    side = np.full(len(stratum), TRAIN, dtype=np.int8)
    side[far < to_train[stratum]] = NOBODY
    side[(far >= to_valid[stratum]) & (far < (to_valid + valid)[stratum])] = VALID
    side[far < test[stratum]] = TEST
    part: np.ndarray = side[units.of]
    return part


def _amounts(
    stratum: np.ndarray, middle: np.ndarray, far: np.ndarray, sizes: np.ndarray, test_share: float, valid_share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Test and validation units per stratum. Training gets at least one first, then testing, then validation."""
    counts, totals = np.bincount(stratum), np.bincount(stratum, sizes)

    def units_within(samples: np.ndarray) -> np.ndarray:
        return np.bincount(stratum[middle < samples[stratum]], minlength=len(counts))

    test = units_within(np.floor(totals * test_share + 0.5))
    test = np.clip(test, 1 if test_share else 0, np.maximum(counts - 1, 0))
    tested = np.bincount(stratum, sizes * (far < test[stratum]))
    valid = units_within(tested + np.floor(totals * valid_share + 0.5)) - test
    valid = np.clip(valid, 1 if valid_share else 0, np.maximum(counts - test - 1, 0))
    return test, valid
