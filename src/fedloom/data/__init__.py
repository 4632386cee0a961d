"""Federations, partitioners, data sets and a user's own data."""

from fedloom.data.changes.class_stream import ClassStream, with_class_stream
from fedloom.data.changes.communal_set import Communal, with_communal, with_communal_set
from fedloom.data.changes.label_share import with_label_share
from fedloom.data.changes.server_set import ServerSet, with_server_set
from fedloom.data.datasets.dataset import Dataset, dataset
from fedloom.data.datasets.load import load
from fedloom.data.federate import Samples, federate
from fedloom.data.federation import Federation, Ragged
from fedloom.data.federation_figure import describe, plot_federation
from fedloom.data.folder import data_folder
from fedloom.data.from_arrays import from_arrays
from fedloom.data.input_statistics import input_statistics
from fedloom.data.partition.base import Partition, Partitioner
from fedloom.data.partition.feature_skew import with_feature_skew
from fedloom.data.partition.partitioner import (
    classes_per_client,
    dirichlet,
    iid,
    natural,
    partition_config,
    partitioner,
    power_law,
    quantities,
    shards,
)
from fedloom.data.read import read
from fedloom.registry.kinds import DATASETS, PARTITIONS

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "ClassStream",
    "Communal",
    "Dataset",
    "Federation",
    "Partition",
    "Partitioner",
    "Ragged",
    "Samples",
    "ServerSet",
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
    "partition_config",
    "partitioner",
    "plot_federation",
    "power_law",
    "quantities",
    "read",
    "shards",
    "with_class_stream",
    "with_communal",
    "with_communal_set",
    "with_feature_skew",
    "with_label_share",
    "with_server_set",
]
