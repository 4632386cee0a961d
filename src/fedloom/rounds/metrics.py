"""Metrics over clients: named numbers from one value per client.

A name says which model was scored on which data, and how clients were put together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.metric import Metric
from fedloom.registry.user_errors import describe_error

GROUPS = ("small", "intermediate", "big")


def size_limits(sizes: Tensor, bounds: Sequence[int] | None) -> tuple[float, float]:
    """The numbers of training samples up to which a client is small, and from which on it is big.

    Args:
        sizes: The training samples of all clients.
        bounds: The two limits; by default the terciles of the sizes.
    """
    if bounds is None:
        low, high = (float(quantile) for quantile in np.quantile(sizes.numpy(), (1 / 3, 2 / 3)))
        return low, high
    if len(bounds) != 2 or bounds[0] >= bounds[1]:
        raise FedloomError(f"size_groups={list(bounds)}: give two sizes, the first below the second.")
    return bounds[0], bounds[1]


def size_groups(sizes: Tensor, limits: tuple[float, float]) -> list[str]:
    """The size group of clients with these numbers of training samples."""
    low, high = limits
    return ["small" if size <= low else "big" if size >= high else "intermediate" for size in sizes.tolist()]


def metric_values(metrics: Sequence[Metric], sums: Mapping[str, Tensor], counts: Tensor) -> dict[str, Tensor]:
    """The value of each metric for each client, by the metric's name; NaN for a client without samples.

    Args:
        sums: The sums of each metric, a row per client.
        counts: What counts in each client's scores.
    """
    values = {}
    for metric in metrics:
        pairs = zip(sums[metric.name], counts.tolist(), strict=True)
        found = [value_of(metric, row) if count else math.nan for row, count in pairs]
        values[metric.name] = torch.tensor(found, dtype=torch.float64)
    return values


def value_of(metric: Metric, sums: Tensor) -> float:
    """The value of a metric; NaN where it divides by zero."""
    try:
        value = metric.value(sums)
    except ArithmeticError:
        return math.nan
    except FedloomError:
        raise
    except Exception as error:  # whatever a user's metric raises
        raise FedloomError(
            f"metric {metric.name}: value cannot take a vector of {len(sums)} sums: {describe_error(error)}."
        ) from error
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise FedloomError(f"metric {metric.name}: value must give a number, got {value!r}.") from None


def over_clients(
    prefix: str,
    values: Tensor,
    sizes: Tensor,
    groups: Sequence[str] = (),
    new: Tensor | None = None,
    higher_is_better: bool | None = None,
) -> dict[str, float]:
    """Mean, spread, size-weighted mean, worst decile and size groups of one value per client.

    Clients without a value (no test sample) do not count; ``new`` ones, who were held out of training, have a mean
    of their own and count in nothing else. There is a worst decile where it is known which values are better: of
    accuracies, and where ``higher_is_better`` is given.
    """
    if prefix.endswith("/accuracy"):
        higher_is_better = True
    if new is not None and bool(new.any()):
        here = ~new
        chosen = [group for group, keep in zip(groups, here.tolist(), strict=True) if keep] if groups else []
        there = new & ~torch.isnan(values)
        fresh = {f"{prefix}/new": float(values[there].double().mean())} if bool(there.any()) else {}
        return over_clients(prefix, values[here], sizes[here], chosen, None, higher_is_better) | fresh
    there = ~torch.isnan(values)
    if not bool(there.any()):
        return {}
    kept = values[there].double()
    weight = sizes[there].double()
    named = {"mean": kept.mean(), "std": kept.std(correction=0)}
    if bool(weight.any()):  # in a stream, who has test samples may have no sample to train on
        named["weighted"] = (kept * weight).sum() / weight.sum()
    if higher_is_better is not None:
        named["worst_decile"] = kept.sort(descending=not higher_is_better).values[: max(1, len(kept) // 10)].mean()
    chosen = [group for group, keep in zip(groups, there.tolist(), strict=True) if keep] if groups else []
    for group in GROUPS if len(set(chosen)) > 1 else ():
        mask = torch.tensor([one == group for one in chosen])
        if bool(mask.any()):
            named[group] = kept[mask].mean()
    return {f"{prefix}/{over}": float(value) for over, value in named.items()}


def score_per_selected(metrics: Mapping[str, float], score: str, selected: float) -> dict[str, float]:
    """Efficiency: the mean score of clients' models per client that was selected in the round (FedPredict, 2023)."""
    name = f"client_model/own_test/{score}"
    return (
        {f"{name}/per_selected": metrics[f"{name}/mean"] / selected} if f"{name}/mean" in metrics and selected else {}
    )
