"""Whether methods are better than answering without a model, by the same paired test as between methods.

Each method is held against the strongest baseline of the task. With K methods, Holm's procedure corrects for K tests.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.rounds.score import Score
from fedloom.runs.results.baselines import baselines_of_runs, strongest_baseline
from fedloom.runs.results.significance import LEAST_SEEDS, LEVEL, p_values
from fedloom.runs.results.summaries import Histories, is_finite, join_names, values_by_seed

Scores = Mapping[Hashable, float]


def baseline_sentence(histories: Histories, score: Score) -> tuple[str, bool]:
    """The sentence about methods and the strongest baseline on the clients' own tests, and whether it is a warning.

    Args:
        histories: The runs of the methods that ran to their end.
        score: The score of their task.
    """
    baseline = strongest_baseline(baselines_of_runs(histories), score, score.clients)
    mean = None if baseline is None else baseline.mean(score.clients)
    if baseline is None or mean is None or not histories:
        return "", False
    over_seeds = {name: values_by_seed(runs, score.clients, score.rank) for name, runs in histories.items()}
    own = values_by_seed(baseline.runs, score.clients, score.rank)
    differences = {name: _paired(values, own) for name, values in over_seeds.items() if values}
    if not differences:
        return "", False
    unit, count = "seeds", min(map(len, differences.values()))
    if count < LEAST_SEEDS:
        by_client = {
            name: _by_client(runs[0].clients, score) for name, runs in histories.items() if name in differences
        }
        reference = _by_client(baseline.runs[0].clients, score)
        differences = {name: _paired(values, reference) for name, values in by_client.items()}
        unit, count = "clients of one seed", min(map(len, differences.values()))
    better = _established(differences)
    best = max(over_seeds, key=lambda name: np.mean(list(over_seeds[name].values()) or [-np.inf]))
    answer = f"{baseline.words} ({score.text(mean)})"
    basis = f"paired over {count} {unit}, {100 * LEVEL:.0f} %"
    means = {name: float(np.mean(list(over_seeds[name].values()))) for name in differences}

    def compared(names: list[str]) -> str:
        """Below the baseline, or above it by less than chance: the first is not called the second."""
        return "better" if all(means[name] <= score.rank(mean) for name in names) else "established to be better"

    if not better:
        how, top = compared(list(differences)), score.text(score.rank(means[best]))
        if len(differences) > 1:
            return f"No method is {how} than {answer}: the best, {best}, has {top} ({basis}).", True
        return f"{best} ({top}) is not {how} than {answer} ({basis}).", True
    rest = [name for name in differences if name not in better]
    if rest:
        are = "is" if len(rest) == 1 else "are"
        return f"{join_names(rest)} {are} not {compared(rest)} than {answer} ({basis}).", True
    return f"For comparison: {answer}.", False


def _paired(values: Scores, reference: Scores) -> list[float]:
    """The differences over the units that both have."""
    return [values[unit] - reference[unit] for unit in values if unit in reference]


def _by_client(rows: Sequence[Mapping[str, Any]], score: Score) -> dict[Hashable, float]:
    return {row["client"]: score.rank(row[score.name]) for row in rows if is_finite(row.get(score.name))}


def _established(differences: Mapping[str, list[float]]) -> list[str]:
    """The methods whose mean difference is above 0 by Holm's procedure."""
    tested = {name: float(p_values(np.array(found))) if found else 1.0 for name, found in differences.items()}
    better, left = [], len(tested)
    for name in sorted(tested, key=lambda one: tested[one]):
        if tested[name] * left > 1 - LEVEL:
            break
        left -= 1
        if np.mean(differences[name]) > 0:
            better.append(name)
    return [name for name in differences if name in better]
