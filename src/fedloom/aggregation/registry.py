"""Aggregators by name (``[aggregation]`` in a config)."""

from __future__ import annotations

from fedloom.aggregation.bulyan import Bulyan
from fedloom.aggregation.centred_clipping import CentredClipping
from fedloom.aggregation.dnc import DnC
from fedloom.aggregation.fltrust import FLTrust
from fedloom.aggregation.foolsgold import FoolsGold
from fedloom.aggregation.geometric_median import GeometricMedian
from fedloom.aggregation.krum import Krum, MultiKrum
from fedloom.aggregation.mean import Mean
from fedloom.aggregation.median import Median
from fedloom.aggregation.norm_bounding import NormBounding
from fedloom.aggregation.trimmed_mean import TrimmedMean
from fedloom.core.aggregator import Aggregator
from fedloom.privacy.private_mean import PrivateMean

_ALL: tuple[type[Aggregator], ...] = (
    Mean,
    PrivateMean,
    Median,
    TrimmedMean,
    GeometricMedian,
    Krum,
    MultiKrum,
    Bulyan,
    NormBounding,
    CentredClipping,
    FoolsGold,
    FLTrust,
    DnC,
)
AGGREGATORS: dict[str, type[Aggregator]] = {kind.__name__.lower(): kind for kind in _ALL}
