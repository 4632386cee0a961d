"""The scores of a task's baselines on the same test samples as the models', once at the end of a simulation.

A deployment has none: the answers would have to be fitted on samples that stay at the sites.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from fedloom.baselines.usual import baselines_of
from fedloom.core.baseline import Baseline, FittedBaseline
from fedloom.core.metric import Scores
from fedloom.core.task import FederationView, Lists, Task
from fedloom.rounds.client_runtime import VALIDATION
from fedloom.rounds.composition import Composition
from fedloom.rounds.evaluation import has_validation, name_client_scores, scored_clients, with_metric_values
from fedloom.rounds.jobs import Engine, LocalEngine, Tensors
from fedloom.rounds.metrics import value_of
from fedloom.training.metric_sums import MetricSums

MOST_CLIENTS = 1000
"""With more clients than this, no baseline is fitted for each of them."""
SAMPLES_AT_ONCE = 4096
OUTPUTS_AT_ONCE = 2**25
"""Fewer samples at once where each has many classes: a vocabulary of ten thousand words takes gigabytes otherwise."""


@dataclass(frozen=True)
class BaselineScores:
    """What a baseline scored.

    Args:
        name: The baseline: ``majority``, or ``own majority`` if every client answers by its own samples.
        words: What it does, behind "better than".
        metrics: Its numbers under the names that models' have.
        clients: A row per client.
    """

    name: str
    words: str
    metrics: dict[str, float]
    clients: list[dict[str, Any]]


def score_baselines(run: Composition, engine: Engine, round_number: int) -> list[dict[str, Any]]:
    """The scores of the baselines of a run's task, pooled and by each client, as they are written; none when deployed.

    Args:
        run: What the run is made of.
        engine: Where the clients' jobs run.
        round_number: The round whose data count: they may change over time.
    """
    return score_pooled_and_own(run, round_number) if isinstance(engine, LocalEngine) else []


def score_pooled_and_own(run: Composition, round_number: int) -> list[dict[str, Any]]:
    """The same where the samples are known to be here.

    Args:
        run: What the run is made of.
        round_number: The round whose data count.
    """
    task = run.task.at(round_number)
    training = _training_samples(run, round_number)
    pool = torch.cat([samples for samples in training if len(samples)] or [torch.zeros(0, dtype=torch.int64)])
    if not len(pool):
        return []
    return [asdict(scores) for one in baselines_of(task) for scores in _scores_of(run, task, one, pool, training)]


def _scores_of(
    run: Composition, task: Task, baseline: Baseline, pool: Tensor, training: Sequence[Tensor]
) -> list[BaselineScores]:
    """The scores of a baseline that is fitted on all clients' samples, and of one that each client fits on its own."""
    pooled = baseline.fit(task, pool)
    metrics, rows = _score_clients(run, task, lambda _: pooled)
    found = [BaselineScores(baseline.name, pooled.words, _score_shared(task, pooled) | metrics, rows)]
    if len(training) <= MOST_CLIENTS:
        metrics, rows = _score_clients(run, task, lambda client: baseline.fit(task, training[client], pooled))
        found.append(BaselineScores(f"own {baseline.name}", baseline.own_words, metrics, rows))
    return found


def _training_samples(run: Composition, round_number: int) -> list[Tensor]:
    """The training samples of each client up to a round; none of clients that are held out of training."""
    whole = run.task.federation
    states: list[FederationView] = [whole.at(round_number)]
    if whole.seen is not None:  # earlier tasks of a stream were learnt from too
        states = [whole, *(state for start, state in whole.later if start <= round_number)]
    held_out = set(run.new_clients)
    return [
        torch.zeros(0, dtype=torch.int64)
        if client in held_out
        else torch.cat([state.train[client] for state in states]).unique()  # type: ignore[no-untyped-call]
        for client in range(whole.clients)
    ]


def _score_clients(
    run: Composition, task: Task, answers_of: Callable[[int], FittedBaseline]
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    federation = task.federation
    ids = list(scored_clients(run, federation))
    answers = [answers_of(client) for client in ids]
    columns = _part_sums(task, answers, ids, federation.test)
    if has_validation(federation):
        valid = _part_sums(task, answers, ids, federation.valid)
        columns |= {VALIDATION + name: column for name, column in valid.items()}
    if federation.withheld is not None:
        columns["recall"] = _withheld_recall(task, answers, ids, *federation.withheld)
    totals: Tensors = {}
    return name_client_scores(run, federation, ids, with_metric_values(run, ids, columns, totals), totals)


def _withheld_recall(
    task: Task, answers: Sequence[FittedBaseline], ids: Sequence[int], label: int, victims: Collection[int]
) -> Tensor:
    """The recall of the withheld class at the clients that never trained on it; NaN at others."""
    recall = torch.full((len(ids),), torch.nan, dtype=torch.float64)
    for place, (client, answer) in enumerate(zip(ids, answers, strict=True)):
        test = task.federation.test[client]
        of_class = test[task.targets(test) == label]
        if client in victims and len(of_class):
            recall[place] = _sums(task, answer, of_class, lambda *_: None).mean_score
    return recall


def _part_sums(task: Task, answers: Sequence[FittedBaseline], ids: Sequence[int], part: Lists) -> Tensors:
    """Each client's sums of loss, score, counts and metrics on one part of its samples."""
    sums = MetricSums(task.metrics, len(ids))
    scores = [
        _sums(task, answer, part[client], sums.of_client(place))
        for place, (client, answer) in enumerate(zip(ids, answers, strict=True))
    ]
    columns = {
        "loss": torch.stack([one.loss for one in scores]),
        "score": torch.stack([one.score for one in scores]),
        "counts": torch.stack([one.counts for one in scores]),
    }
    first = task.federation.train.order[:1]
    rows = sums.rows(lambda watch: _sums(task, answers[0], first, watch))
    return columns | {f"metric/{name}": found for name, found in rows.items()}


def _score_shared(task: Task, pooled: FittedBaseline) -> dict[str, float]:
    """Score, loss and metrics on the global test set, where there is one."""
    everybody = task.federation.global_test
    if not len(everybody):
        return {}
    sums = MetricSums(task.metrics, 1)
    total = _sums(task, pooled, everybody, sums.of_client(0))
    prefix = "global_model/global_test"
    named = {
        f"{prefix}/{task.objective.score}": float(total.mean_score),
        f"{prefix}/loss": float(total.mean_loss),
        **{f"{prefix}/{metric.name}": value_of(metric, sums.sums[metric.name][0]) for metric in task.metrics},
    }
    return {name: value for name, value in named.items() if value == value}  # NaN: undefined


def _sums(task: Task, answers: FittedBaseline, positions: Tensor, watch: Callable[[Tensor, Tensor], None]) -> Scores:
    """The sums of loss, score and counts over some samples; ``watch`` sees each batch of predictions."""
    total = torch.zeros(3, dtype=torch.float64)
    at_once = min(SAMPLES_AT_ONCE, max(1, OUTPUTS_AT_ONCE // max(1, task.federation.classes)))
    if task.kind == "tokens" and task.federation.classes > SAMPLES_AT_ONCE:
        at_once = max(1, at_once // task.federation.columns["y"].shape[-1])
    for chunk in torch.split(positions, at_once) if len(positions) else ():
        outputs, targets = answers.outputs(chunk), task.targets(chunk)
        losses, counts = task.objective.losses(outputs, targets)
        scores, _ = task.objective.scores(outputs, targets)
        total += torch.stack([column.double().sum() for column in (losses, scores, counts)])
        watch(task.predictions(outputs), targets)
    return Scores(*total)
