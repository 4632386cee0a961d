"""Equal random shares: every client sees the same distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedloom.core.seeds import numpy_generator
from fedloom.data.partition.base import Partition, order_by_label, single_labels


@dataclass(frozen=True)
class Iid(Partition):
    """Equal random shares; stratified shares also hold the classes in equal parts."""

    stratified: bool = False

    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        random = numpy_generator(seed, "partition")
        order = (
            order_by_label(single_labels(labels, "iid"), random) if self.stratified else random.permutation(len(labels))
        )
        owners = np.empty(len(labels), dtype=np.int64)
        owners[order] = np.arange(len(labels)) % clients
        return owners
