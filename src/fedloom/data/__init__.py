"""Federations, partitioners, data sets and a user's own data."""

from fedloom.data.build import Samples, federate
from fedloom.data.communal import with_communal
from fedloom.data.datasets import DATASETS, Dataset, dataset, load
from fedloom.data.federation import Federation, Ragged
from fedloom.data.format import data_folder
from fedloom.data.own import from_arrays, own
from fedloom.data.partition import Partition, Partitioner
from fedloom.data.partitions import (
    PARTITIONS,
    classes_per_client,
    dirichlet,
    iid,
    natural,
    partition_config,
    partition_summary,
    partitioner,
    power_law,
    quantities,
    shards,
)
from fedloom.data.picture import describe, picture
from fedloom.data.skew import with_feature_skew
from fedloom.data.statistics import input_statistics

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "Dataset",
    "Federation",
    "Partition",
    "Partitioner",
    "Ragged",
    "Samples",
    "classes_per_client",
    "data_folder",
    "dataset",
    "describe",
    "dirichlet",
    "federate",
    "from_arrays",
    "iid",
    "input_statistics",
    "load",
    "natural",
    "own",
    "partition_config",
    "partition_summary",
    "partitioner",
    "picture",
    "power_law",
    "quantities",
    "shards",
    "with_communal",
    "with_feature_skew",
]
