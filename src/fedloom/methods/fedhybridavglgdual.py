"""FedHybridAvgLGDual: FedHybridAvgLG whose large clients train twice.

Large clients train their own body under the global head, and then the shared model. They send the head of the first
training and the body of the second, whose head is discarded; both trainings start from the global head. As before
``w <- sum_k p_k w_k``. So all clients train the shared body, and private bodies never leave their clients, at twice the
work for large clients. From the same thesis as FedHybridAvgLG (no public link known). Settings: as FedHybridAvgLG.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.local_work import LocalWork
from fedloom.methods.fedhybridavglg import FedHybridAvgLG


@dataclass(frozen=True)
class FedHybridAvgLGDual(FedHybridAvgLG):
    """FedHybridAvgLG whose large clients train twice: their own body, and the shared model.

    Args:
        threshold: As in FedHybridAvgLG.
        probe_rounds: As in FedHybridAvgLG.
    """

    def steps_per_turn(self, work: LocalWork, samples: int) -> int:
        return 2 * work.steps_for(samples)

    def prepare_upload(self, cohort: Cohort, row: Tensor, rows: Tensor, large: Tensor) -> Tensor:
        layout = cohort.task.layout
        shared = cohort.train(torch.where(large[:, None], row, rows), only=large)
        cohort.after = rows  # the model that the client predicts with, not its second training
        return layout.put(rows, "body", layout.take(shared, "body"))
