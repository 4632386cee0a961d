"""Validation of what a site measured: scores between 0 and their counts, counts of the samples that it announced.

A score that cannot be would change tables, verdicts and which round counts as the best. What is known of it follows
from the task: the score of a classification is a share, a share metric has values from 0 to 1, the losses of this
library are not negative, and every sample counts once (or, of a sequence, each of its positions at most once). How
large a loss may be only the other sites know.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.metric import Metric
from fedloom.core.task import Task
from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.protocol.wire import RejectedMessage
from fedloom.losses.own_function import OwnLoss
from fedloom.rounds.client_runtime import VALIDATION
from fedloom.rounds.metrics import value_of
from fedloom.rounds.reply_norms import median_of_others

SHARES = ("accuracy", "exact_match")
"""Scores of objectives that are the share of right samples."""
ROUNDING = 1e-4
"""How far a sum of numbers in single precision may be beyond its bound, as a share of it."""
LARGEST_LOSS = 1000.0
"""How many times the median of the others, and of one, a site's mean loss may be."""
FEWEST = 3
"""Fewer answers do not tell whose loss is unusual."""


@dataclass(frozen=True)
class ScoreBounds:
    """What is known of a task's scores before a site sends them.

    Args:
        is_share: Whether the task's score is the share of right samples.
        has_negative_losses: Whether a loss may be negative: one of the user's own may.
        positions: How many times a sample may count: 1, or the length of a sequence.
    """

    is_share: bool
    has_negative_losses: bool
    positions: int
    metrics: tuple[Metric, ...] = ()

    @staticmethod
    def of(task: Task) -> ScoreBounds:
        """The bounds of a task's scores."""
        target = task.federation.columns.get("y")
        positions = 1 if target is None or target.dim() < 2 else target[0].numel()
        own = isinstance(task.objective, OwnLoss)
        return ScoreBounds(task.objective.score in SHARES, own, positions, task.metrics)


def check_scores(tensors: Mapping[str, Tensor], sizes: ClientSizes, bounds: ScoreBounds) -> None:
    """Refuse measurements that cannot be, with ``RejectedMessage``.

    Args:
        tensors: The tensors of an answer that is complete and finite.
        sizes: What the site announced.
        bounds: What is known of the task's scores.
    """
    for part, announced, whose in (("", sizes.test, "test"), (VALIDATION, sizes.valid, "validation")):
        counts = tensors.get(f"{part}counts")
        if counts is not None:
            _check_counts(f"{part}counts", counts, announced, whose, bounds.positions)
            _check_range(tensors, [f"{part}loss", f"{part}score"], counts.double(), bounds)
            _check_metrics(tensors, part, bounds.metrics)
    if "counts" not in tensors:
        _check_range(tensors, ["loss", "score"], torch.ones(()), bounds)
    means = [f"{model}/{what}" for model in ("received", "trained") for what in ("loss", "score")]
    _check_range(tensors, means, torch.ones(()), bounds)
    shares = [metric.name for metric in bounds.metrics if metric.is_share]
    prefixes = ("received/metric/", "trained/metric/", "global/")
    _check_shares(tensors, ["recall", *(f"{prefix}{name}" for prefix in prefixes for name in shares)])
    if "confusion" in tensors:
        _check_confusion(tensors["confusion"], sizes.test * bounds.positions)


def unusual_losses(results: Mapping[int, Mapping[str, Tensor]]) -> dict[int, str]:
    """Whose answer cannot be believed, since its mean loss is out of all proportion to the others'; the reason by
    client.

    Args:
        results: The answers of one exchange, by client.
    """
    found: dict[int, str] = {}
    for name in ("loss", f"{VALIDATION}loss", "received/loss", "trained/loss"):
        means = {client: mean for client, one in results.items() if (mean := _mean_loss(one, name)) is not None}
        if len(means) < FEWEST:
            continue
        losses = torch.tensor(list(means.values()), dtype=torch.float64)
        usual = median_of_others(losses).clamp(min=1.0)
        for place, client in enumerate(means):
            if losses[place] > LARGEST_LOSS * usual[place]:
                text = f"{name} is {float(losses[place]):.3g} per sample, where {float(usual[place]):.3g} is usual"
                found.setdefault(client, text)
    return found


def _mean_loss(tensors: Mapping[str, Tensor], name: str) -> float | None:
    """The mean loss of an answer; None if it has none."""
    loss = tensors.get(name)
    if loss is None:
        return None
    counts = tensors.get(name.removesuffix("loss") + "counts")
    mean = float(loss.double().mean() if counts is None else loss.double().sum() / counts.double().sum())
    return mean if math.isfinite(mean) else None


def _check_counts(name: str, counts: Tensor, announced: int, whose: str, positions: int) -> None:
    said = float(counts.sum())
    if said != announced if positions == 1 else said > announced * positions:
        raise RejectedMessage(f"{name} is {said:g}, but the site announced {announced:,} {whose} samples")


def _check_range(tensors: Mapping[str, Tensor], names: Iterable[str], most: Tensor, bounds: ScoreBounds) -> None:
    """Check losses and scores that are at most as large as their counts, or as one."""
    for name in names:
        values = tensors.get(name)
        if values is None:
            continue
        is_score = name.endswith("score")
        if bool((values < 0).any()) and not (bounds.has_negative_losses and not (is_score and bounds.is_share)):
            raise RejectedMessage(f"{name} is negative")
        if is_score and bounds.is_share and bool((values.double() > most * (1 + ROUNDING)).any()):
            raise RejectedMessage(f"{name} is {float(values.max()):g}, which is above its count {float(most.max()):g}")


def _check_metrics(tensors: Mapping[str, Tensor], part: str, metrics: Iterable[Metric]) -> None:
    """Check the sums of metrics whose values are shares: their value lies between 0 and 1."""
    for metric in metrics:
        sums = tensors.get(f"{part}metric/{metric.name}")
        if sums is None or not metric.is_share:
            continue
        try:
            values = [value_of(metric, row.double()) for row in sums]
        except FedloomError:
            raise RejectedMessage(f"{part}metric/{metric.name} has sums without a value") from None
        for value in values:
            _check_share(f"{part}metric/{metric.name}", value)
        if bool((sums < 0).any()):
            raise RejectedMessage(f"{part}metric/{metric.name} has a negative sum")


def _check_shares(tensors: Mapping[str, Tensor], names: Iterable[str]) -> None:
    for name in names:
        for value in tensors[name].flatten().tolist() if name in tensors else ():
            _check_share(name, value)


def _check_share(name: str, value: float) -> None:
    if not math.isnan(value) and not -ROUNDING <= value <= 1 + ROUNDING:
        raise RejectedMessage(f"{name} has the value {value:g}; it must be between 0 and 1")


def _check_confusion(table: Tensor, most: int) -> None:
    if bool((table < 0).any()) or float(table.double().sum()) > most:
        raise RejectedMessage(f"confusion counts {float(table.double().sum()):g} samples; at most {most:,} are known")
