"""FLTrust: the server trains on a small clean set of its own and trusts clients that move the same way.

The server does the run's local work from the same model on its own samples; g is its change. A client's trust is
``max(0, cos(g_i, g))``, its change is scaled to the norm of g, and the changes are averaged by trust.

The server's own set is the communal set of the task (``task.communal_per_class``). It has to be like
the clients' data: clients whose data lack in it are not trusted.

It promises: the change is at most as long as the server's own, whatever clients send, and however many are hostile.

Cao, Fang, Liu and Gong, FLTrust: Byzantine-robust Federated Learning via Trust Bootstrapping, NDSS 2021,
https://arxiv.org/abs/2012.13995, algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from fedloom.aggregation.changes import changes_of, moved_by
from fedloom.aggregation.clean_samples import require_clean_samples
from fedloom.aggregation.robust_rule import RobustRule
from fedloom.core.aggregator import AggregationContext
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.task import Task
from fedloom.core.trainer import TrainingRequest

SERVER = -1
"""The number of the server where clients have theirs: its batches are its own."""


@dataclass(frozen=True)
class FLTrust(RobustRule):
    """The mean of changes, each as large as the server's own and weighted by its cosine with it.

    Args:
        bucket: How many clients are averaged before the rule sees them.
    """

    needs: ClassVar[Facts] = dict.fromkeys(
        (Fact.WHOLE_MODEL, Fact.TRAINED_MODELS),
        "compares clients with a whole model that the server trains: use another aggregator",
    )

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse a task without samples of the server's own."""
        require_clean_samples(self.name, task)

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The rule on changes."""
        return moved_by(super().__call__(changes_of(rows, context), weights, context), context)

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """Changes as large as the server's own, by trust; no change if nobody is trusted."""
        own = self._change_of_server(rows, context)
        norms = rows.norm(dim=1)
        trust = (rows @ own / (norms * own.norm()).clamp(min=1e-30)).clamp(min=0)
        scaled = rows * (own.norm() / norms.clamp(min=1e-30))[:, None]
        change: Tensor = trust @ scaled / trust.sum().clamp(min=1e-30)
        return change

    def _change_of_server(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """What the run's local work on the server's samples changes."""
        origin = context.origin
        if origin is None:  # rows that a method made itself
            raise FedloomError("fltrust cannot tell which model these rows started from: use another aggregator.")
        start = (origin if origin.dim() == 1 else origin.mean(0))[None]
        work = replace(context.work, partial=0.0)  # a server is not a straggler
        request = TrainingRequest(
            rows=start.clone(),
            clients=[SERVER],
            positions=[context.task.federation.communal],
            work=work,
            lr=work.lr_at(context.round, context.rounds),
            seed=context.seed,
            round=context.round,
            rates=work.rates_in(context.round, context.rounds),
        )
        return (context.trainer.train(request).rows[0] - start[0]).to(rows)
