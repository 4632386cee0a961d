"""Aggregators by name (``[aggregation]`` in a config)."""

from __future__ import annotations

from fedloom.aggregation.mean import Mean
from fedloom.aggregation.median import Median
from fedloom.aggregation.trimmed_mean import TrimmedMean
from fedloom.core.aggregator import Aggregator

AGGREGATORS: dict[str, type[Aggregator]] = {kind.__name__.lower(): kind for kind in (Mean, Median, TrimmedMean)}
