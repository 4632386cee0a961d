"""Early stopping: a run ends when its clients' models no longer get better on their validation parts.

The run then has the state of its best round: its models, its clients' scores and its row in tables are those of that
round, and its costs those of all rounds that it played. Which round is the best follows from the records alone, so a
stop and a resume change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.core.settings import Count, NonNegative, check_settings
from fedloom.core.task import FederationView
from fedloom.rounds.evaluation import has_validation
from fedloom.rounds.score import Score, lower_is_better

MEASURED_ON = "client_model/own_validation/"


@dataclass(frozen=True)
class EarlyStopping:
    """When to stop.

    Args:
        patience: The run ends after this many evaluations without a better value.
        metric: A metric on clients' validation parts; None is the mean of the task's score.
        min_delta: A value is better if it is better by more than this.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    patience: Count
    metric: str | None = None
    min_delta: NonNegative = 0.0

    def __post_init__(self) -> None:
        check_settings(self, "early_stopping")
        if self.metric is not None and not self.metric.startswith(MEASURED_ON):
            raise FedloomError(
                f"early_stopping.metric={self.metric}: it must be measured on validation data, for instance "
                f"{MEASURED_ON}loss/mean."
            )

    def complete(self, federation: FederationView, eval_every: int, score: str) -> EarlyStopping:
        """The rule with the name of its metric; a run that measures nothing on validation data is refused.

        Args:
            federation: The data of the run.
            eval_every: How often the run evaluates.
            score: The name of the task's score.
        """
        if eval_every == 0:
            raise FedloomError("early_stopping needs evaluations, but eval_every=0: leave one of them out.")
        if federation.tasks:
            raise FedloomError(
                "early_stopping ends a run before the later tasks of task.stream come, and new classes always make the "
                "score worse: leave it out."
            )
        if not has_validation(federation):
            raise FedloomError(
                "early_stopping needs clients with validation parts: set task.valid_share, for instance to 0.2."
            )
        return replace(self, metric=self.metric or f"{MEASURED_ON}{score}/mean")


@dataclass(frozen=True)
class BestSoFar:
    """The best round so far, and whether patience has ended."""

    best: int
    is_over: bool


def best_so_far(
    records: Sequence[Mapping[str, Any]], rule: EarlyStopping, known: Sequence[Score] = ()
) -> BestSoFar | None:
    """How far a run has come by its rule; None if nothing was measured after a round of training.

    Args:
        records: The run's records.
        rule: When to stop.
        known: What is known of the task's metrics.
    """
    name = str(rule.metric)
    sign = -1.0 if lower_is_better(name, known) else 1.0
    found = [(r["round"], sign * r["metrics"][name]) for r in records if r["round"] and name in r["metrics"]]
    if not found:
        if any(record["round"] and record["metrics"] for record in records):
            raise FedloomError(f"early_stopping.metric={name} is not measured in this run: name another metric.")
        return None
    best, highest, waited = found[0][0], found[0][1], 0
    for number, value in found[1:]:
        waited += 1
        if value > highest + rule.min_delta:
            best, highest, waited = number, value, 0
        if waited >= rule.patience:
            return BestSoFar(best, True)
    return BestSoFar(best, False)
