"""A named data set as a federation: reader, partitioner and split together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedloom.data.datasets.dataset import Dataset, dataset
from fedloom.data.federate import federate
from fedloom.data.federation import Federation
from fedloom.data.partition.base import Partitioner
from fedloom.data.partition.natural import Natural
from fedloom.data.partition.partitioner import partitioner
from fedloom.data.partition.quantity_skew import Quantities


def default_clients(entry: Dataset, partition: Partitioner) -> int | None:
    """The number of clients if nobody names one; None if the data say it: all natural clients with enough samples."""
    if isinstance(partition, Natural):
        return None
    return len(partition.sizes) if isinstance(partition, Quantities) else entry.clients or 100


def load(
    name: str,
    *,
    clients: int | None = None,
    partition: Partitioner | str | Mapping[str, Any] | None = None,
    seed: int = 0,
    test_share: float = 0.2,
    valid_share: float = 0.0,
    global_share: float = 0.15,
    communal_share: float = 0.0,
    folder: Path | None = None,
    **options: Any,
) -> Federation:
    """A named data set as a federation.

    Args:
        name: A name of ``fedloom list data``.
        clients: The number of clients; None is the data set's default, and all natural clients with enough samples
            where the partition is natural.
        partition: How the data are divided: a partitioner, ``"dirichlet(0.1)"``, or a mapping with ``name``; None is
            the data set's default.
        seed: The seed of all random choices.
        test_share: The share of each client's samples for testing.
        valid_share: The share of each client's samples for validation.
        global_share: The share of all samples for the global test set, where the data set has no official one.
        communal_share: The share of all samples that is set aside for everyone to see.
        folder: Where the data sets' files are; None is the data folder (``FEDLOOM_DATA``).
        **options: Options of the data set's reader.
    """
    entry = dataset(name)
    chosen = entry.partition if partition is None else partitioner(partition)
    clients = default_clients(entry, chosen) if clients is None else clients
    return federate(
        entry.samples(folder, **options),
        chosen,
        clients,
        seed=seed,
        test_share=test_share,
        valid_share=valid_share,
        global_share=global_share,
        communal_share=communal_share,
        title=entry.name,
    )
