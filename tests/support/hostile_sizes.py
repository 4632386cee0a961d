"""Hostile rows of every size against every robust rule: how far each leaves the range of the honest rows.

``make generated`` prints ``table`` into docs/trust.md; ``tests/test_generated.py`` checks that it is current.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.aggregation.bulyan import Bulyan
from fedloom.aggregation.centred_clipping import CentredClipping
from fedloom.aggregation.dnc import DnC
from fedloom.aggregation.fltrust import FLTrust
from fedloom.aggregation.geometric_median import GeometricMedian
from fedloom.aggregation.krum import Krum, MultiKrum
from fedloom.aggregation.median import Median
from fedloom.aggregation.norm_bounding import NormBounding
from fedloom.aggregation.trimmed_mean import TrimmedMean
from fedloom.core.aggregator import AggregationContext, Aggregator
from support.aggregations import aggregate, honest_rows

ROWS, WIDTH, SEEDS = 11, 20, 3
SIZES = {"1": (1.0,), "1e3": (1e3,), "1e8": (1e8,), "1e20": (1e20,), "3e38": (3e38,), "1e3 and 3e38": (1e3, 3e38)}
"""The sizes of hostile rows, one after another, by the heads of the table."""
INSIDE = 1e-6
"""A result that leaves the range by less, as a share of its width, does so by rounding."""
AIM = 2.0
"""Where honest changes point to, in every coordinate; they scatter by 1."""


@dataclass(frozen=True)
class KnowingServer(FLTrust):
    """FLTrust whose server has trained to the honest clients' aim."""

    def _change_of_server(self, rows: Tensor, context: AggregationContext) -> Tensor:
        return torch.full_like(rows[0], AIM)


@dataclass(frozen=True)
class Promise:
    """A rule for a number of hostile rows, and the most that it is for among ``ROWS``."""

    rule: Callable[[int], Aggregator]
    most: int


def share_of(hostile: int) -> float:
    """A share of ``ROWS`` that is so many rows."""
    return hostile / ROWS + 1e-3


PROMISES: Mapping[str, Promise] = {
    "median": Promise(lambda _: Median(), 5),
    "trimmedmean": Promise(lambda f: TrimmedMean(share_of(f)), 5),
    "geometricmedian": Promise(lambda _: GeometricMedian(), 5),
    "krum": Promise(lambda f: Krum(share_of(f)), 4),
    "multikrum": Promise(lambda f: MultiKrum(share_of(f)), 4),
    "bulyan": Promise(lambda f: Bulyan(share_of(f)), 2),
    "normbounding": Promise(lambda _: NormBounding(), 5),
    "centredclipping": Promise(lambda _: CentredClipping(), 5),
    "fltrust": Promise(lambda _: KnowingServer(), 5),
    "dnc": Promise(lambda f: DnC(share_of(f)), 5),
}


def honest_changes(hostile: int, seed: int) -> Tensor:
    """What the honest clients of a round changed."""
    return AIM + honest_rows(ROWS - hostile, WIDTH, seed)


def hostile_changes(hostile: int, sizes: tuple[float, ...], honest: Tensor) -> Iterator[Tensor]:
    """Ways in which some clients send changes of some sizes, one size after another."""
    size = torch.tensor([sizes[number % len(sizes)] for number in range(hostile)])[:, None]
    sign = torch.tensor([(-1.0) ** number for number in range(hostile)])[:, None]
    ones = torch.ones(hostile, WIDTH)
    yield size * ones
    yield -size * ones
    yield size * sign * ones
    yield size * honest_rows(hostile, WIDTH, 77).sign()
    one = honest.mean(0).expand(hostile, WIDTH).clone()
    one[:, :1] = size
    yield one
    if len(sizes) > 1:  # both in one row
        yield torch.tensor(sizes).repeat(WIDTH // len(sizes)) * ones


def results(name: str, hostile: int, sizes: tuple[float, ...]) -> Iterator[tuple[Tensor, Tensor]]:
    """What a rule makes of honest and hostile rows, and the honest ones, for every way and seed.

    The hostile rows come first, so that ties are theirs. Rows are models: changes from a point that all started from.
    """
    origin = honest_rows(1, WIDTH, 5)[0]
    for seed in range(SEEDS):
        honest = honest_changes(hostile, seed)
        for bad in hostile_changes(hostile, sizes, honest):
            rows = torch.cat([bad, honest]) + origin
            found = aggregate(PROMISES[name].rule(hostile), rows, origin=origin, ids=list(range(ROWS)))
            yield found, honest + origin


def excess(found: Tensor, honest: Tensor) -> float:
    """How far a row leaves the range of the honest rows, in its worst coordinate, as a share of the range's width."""
    low, high = honest.amin(0), honest.amax(0)
    return float((torch.maximum(found - high, low - found) / (high - low)).max())


def worst_excess(name: str, hostile: int, sizes: tuple[float, ...]) -> float:
    """The worst excess of a rule; infinity where a result is not finite."""
    worst = 0.0
    for found, honest in results(name, hostile, sizes):
        worst = max(worst, excess(found, honest) if bool(found.isfinite().all()) else torch.inf)
    return worst


def table() -> list[str]:
    """A line per rule and number of hostile rows: the worst excess at every size, or that there is none."""
    lines = [f"| rule | hostile | {' | '.join(SIZES)} |", f"|---|---|{'---|' * len(SIZES)}"]
    for name, promise in PROMISES.items():
        for hostile in sorted({min(2, promise.most), promise.most}):
            found = [worst_excess(name, hostile, sizes) for sizes in SIZES.values()]
            cells = ["inside" if value <= INSIDE else f"+ {value:.1g}" for value in found]
            lines.append(f"| `{name}` | {hostile} of {ROWS} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
