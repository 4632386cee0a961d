"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.methods.fedhybridavglg import FedHybridAvgLG


@dataclass(frozen=True)
class FedHybridAvgLGDual(FedHybridAvgLG):
    """The same, but large clients train twice: their own body under the global head, and the shared model.

    They send the head of the first training and the body of the second, whose head is discarded; both start from the
    global head. So the shared body stays one that everybody trains, at twice the work for large clients.
    """

    def sent(self, cohort: Cohort, row: Tensor, rows: Tensor, large: Tensor) -> Tensor:
        layout = cohort.task.layout
        shared = cohort.train(torch.where(large[:, None], row, rows), only=large)
        cohort.after = rows  # what a client would predict with, not its second training
        return layout.put(rows, "body", layout.take(shared, "body"))
