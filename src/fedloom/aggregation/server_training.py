"""Server training: the server trains the aggregated model on clean, labelled samples of its own.

``row <- train(mean(rows))`` on the communal set of the task (``task.communal_per_class``). What poisoned clients put
into the mean is unlearnt in part, round by round, whoever sent it: nothing is decided about clients, so that it goes
with sums that hide them. Behind another rule (``aggregation = ["trimmedmean", "servertraining"]``) it trains what that
rule makes.

It promises nothing: few clean samples are learnt by heart, and an attack that is stronger than they are remains.

Mai, Chakrabarti, La and Maity, Enhancing Robustness of Federated Learning via Server Learning, 2026,
https://arxiv.org/abs/2604.03226 (there behind a geometric median, and clients are filtered by the samples too).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.aggregation.clean_samples import require_clean_samples
from fedloom.core.aggregator import AggregationContext, Aggregator
from fedloom.core.algorithm import Algorithm
from fedloom.core.facts import Fact, Facts
from fedloom.core.settings import Count
from fedloom.core.task import Task


@dataclass(frozen=True)
class ServerTraining(Aggregator):
    """The weighted mean, or what another rule makes, after the server has trained it on its own clean samples.

    Args:
        epochs: How often the server passes over its samples in each round.
    """

    protects: ClassVar[str] = "training by the server on clean samples of its own"

    grants: ClassVar[Collection[Fact]] = (*Aggregator.grants, Fact.ONLY_SUMS)
    needs: ClassVar[Facts] = dict.fromkeys(
        (Fact.EXCHANGES, Fact.ONE_MEAN), "makes one update of those of all clients: leave it out"
    ) | dict.fromkeys(
        (Fact.WHOLE_MODEL, Fact.TRAINED_MODELS), "trains the mean of clients' whole models: use another aggregator"
    )

    epochs: Count = 1

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse a task without samples of the server's own."""
        require_clean_samples(self.name, task)

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The weighted mean, trained."""
        return self.refine(weights @ rows, context)

    def refine(self, row: Tensor, context: AggregationContext) -> Tensor:
        """The row, trained on the server's samples."""
        work = context.work.for_epochs(self.epochs)
        return context.train(row, context.task.federation.communal, work=work, purpose="server training")
