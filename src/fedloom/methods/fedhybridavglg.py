"""FedHybridAvgLG: small clients use the shared model, large clients keep a body of their own.

Small clients train as in FedAvg, large ones as in LG-FedAvg; all of them send a whole model, and the server takes
``w <- sum_k p_k w_k``. A client is large when it has more than ``threshold`` samples in all (train, validation and
test).

From a thesis on next-action prediction across organisations of very unequal size (no public link known): FedAvg serves
small clients best and LG-FedAvg large ones, and both can share one head. Large clients also send their private bodies,
which spoils the shared body round by round; FedHybridAvgLGDual avoids that. Means are weighted as the run says.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge
from pydantic import AllowInfNan
from torch import Tensor

from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Count
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.requirements import require_body_and_head
from fedloom.methods.size_threshold import (
    PROBE,
    PROBE_REPLIES,
    THRESHOLD,
    check_probe,
    measure_threshold,
    probe_clients,
)


@dataclass(frozen=True)
class FedHybridAvgLG(FedAvg):
    """Small clients train as in FedAvg, large ones as in LG-FedAvg; all of them send a whole model.

    Large clients predict with their own body and the new global head, small ones (and clients that never trained)
    with the global model.

    Args:
        threshold: Clients with more samples are large. Infinity is FedAvg, 0 gives the heads of LG-FedAvg, and
            ``"auto"`` measures the threshold before round 1.
        probe_rounds: How many rounds all clients train to measure the threshold.
    """

    receives: ClassVar[Declared] = {**FedAvg.receives, "threshold": THRESHOLD, "probe": PROBE}
    keeps: ClassVar[Kept] = {"body": "the model's body, as the site trained it"}

    threshold: Annotated[float, Ge(0), AllowInfNan()] | Literal["auto"] = 2200
    probe_rounds: Count = 10

    @property
    def sends(self) -> Declared:  # type: ignore[override]  # a measured threshold needs each client's scores
        return {**FedAvg.sends, **PROBE_REPLIES} if self.threshold == "auto" else FedAvg.sends

    @property
    def turns(self) -> int:  # type: ignore[override]  # those before the first round, and one wave to compare
        return self.probe_rounds + 1 if self.threshold == "auto" else 1

    @property
    def grants(self) -> Collection[Fact]:  # type: ignore[override]
        return () if self.threshold == "auto" else (Fact.ONLY_MEANS, Fact.ONLY_TRAINING)

    def check(self, task: Task, work: LocalWork) -> None:
        require_body_and_head(self, task)
        if isinstance(self.threshold, str):
            return check_probe(task)
        largest = int(task.federation.points.max())
        if largest <= self.threshold < math.inf:
            raise FedloomError(
                f"threshold={self.threshold:g}: the largest client has {largest} samples, so all are small and this is "
                'fedavg: lower the threshold, use threshold="auto", or threshold=inf if that is intended.'
            )

    def prelude(self, server: State, context: ServerContext) -> Round | None:
        return measure_threshold(server, context, self.probe_rounds) if self.threshold == "auto" else None

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({name: server[name] for name in ("row", "threshold") if name in server})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        if "probe" in message:
            return probe_clients(cohort, message)
        layout, row, large = cohort.task.layout, message["row"], self.large(cohort, message)
        rows = cohort.train(self._with_bodies(cohort, row, cohort.task.initial_row(), large))
        cohort.keep("body", layout.take(rows, "body"), only=large)
        return Reply({"row": self.prepare_upload(cohort, row, rows, large)})

    def large(self, cohort: Cohort, message: Message) -> Tensor:
        """Which clients have more samples than the threshold."""
        return cohort.points > (message["threshold"] if isinstance(self.threshold, str) else self.threshold)

    def prepare_upload(self, cohort: Cohort, row: Tensor, rows: Tensor, large: Tensor) -> Tensor:
        """What clients send that received ``row`` and trained ``rows``: whole models, private bodies included."""
        return rows

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        row = message["row"]
        return self._with_bodies(cohort, row, row, self.large(cohort, message))

    def _with_bodies(self, cohort: Cohort, row: Tensor, other: Tensor, large: Tensor) -> Tensor:
        """The global row; for large clients with the body they kept, or with that of ``other`` if they kept none."""
        layout, rows = cohort.task.layout, cohort.spread(row)
        bodies = cohort.kept_rows("body", cohort.spread(layout.take(other, "body")))
        return torch.where(large[:, None], layout.put(rows, "body", bodies), rows)
