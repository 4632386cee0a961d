"""Whether methods are better than answering without a model: paired differences, over clients or over seeds.

Each method is held against the strongest baseline of the task. With K methods, Holm's procedure corrects for K tests.

Which method is best is a question about the next seed, so methods are paired over seeds. Whether a model has learnt
more than a constant is a question about the models at hand and the clients that they serve, and three seeds can hardly
answer it: over three partitions the share of each client's own class alone varies by several points. So the units are
the clients where there are more of them than seeds: each client's difference is its mean over seeds (the same client
may have the same data with every seed, so that its runs are no samples of their own), and Student's t is over clients.
That says nothing of the next seed, and a method must be above the baseline with every seed, too, or be established over
the seeds.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.rounds.score import Score
from fedloom.runs.results.baselines import baselines_of_runs, strongest_baseline
from fedloom.runs.results.history import History
from fedloom.runs.results.significance import LEAST_SEEDS, LEVEL, ROUNDING, p_values
from fedloom.runs.results.summaries import Histories, is_finite, join_names, values_by_seed

Scores = Mapping[Hashable, float]


def baseline_sentence(histories: Histories, score: Score) -> tuple[str, bool]:
    """The sentence about methods and the strongest baseline on the same test, and whether it is a warning.

    The test is the clients' own; the global test set where clients have none.

    Args:
        histories: The runs of the methods that ran to their end.
        score: The score of their task.
    """
    for metric, test in ((score.clients, "the clients' own tests"), (score.shared, "the global test set")):
        over_seeds = {name: values_by_seed(runs, metric, score.rank) for name, runs in histories.items()}
        over_seeds = {name: values for name, values in over_seeds.items() if values}
        known = [one for one in baselines_of_runs(histories) if one.mean(metric) is not None]
        baseline = strongest_baseline(known, score, metric)
        if baseline is not None and over_seeds:
            # The baseline is chosen on these tests, which favours it, and the reader is told out of how many.
            rivals = f"the best of {len(known)} baselines" if len(known) > 1 else "it"
            own = values_by_seed(baseline.runs, metric, score.rank)
            seeds = {name: _paired(values, own) for name, values in over_seeds.items()}
            clients = {name: _paired_by_client(histories[name], baseline.runs, score) for name in over_seeds}
            count, fewest = (min(map(len, found.values())) for found in (seeds, clients))
            means = {name: float(np.mean(list(values.values()))) for name, values in over_seeds.items()}
            base = float(np.mean(list(own.values())))
            if fewest > 1 and (fewest > count or count < LEAST_SEEDS):
                certain = _established(seeds)
                better = [name for name in _established(clients) if min(seeds[name]) > 0 or name in certain]
                unit = "clients of one seed" if count == 1 else f"clients, each with its mean over {count} seeds,"
                count = fewest
            elif count < LEAST_SEEDS:  # nothing is established, and what is above is not warned of
                better, unit = [name for name in means if means[name] > base + ROUNDING], _seeds(count)
            else:
                better, unit = _established(seeds), _seeds(count)
            basis = f"{score.title} on {test}; paired over {count} {unit} with {rivals}, {100 * LEVEL:.0f} %"
            return _sentence(f"{baseline.words} ({score.text(score.rank(base))})", basis, means, base, better, score)
    return "", False


def _sentence(
    answer: str, basis: str, means: Mapping[str, float], base: float, better: Sequence[str], score: Score
) -> tuple[str, bool]:
    """Which methods are not better than a baseline; its score for comparison if all are."""

    def compared(names: list[str]) -> str:
        """Below the baseline, or above it by less than chance: the first is not called the second."""
        return "better" if all(means[name] <= base + ROUNDING for name in names) else "established to be better"

    if not better:
        how, best = compared(list(means)), max(means, key=lambda name: means[name])
        top = score.text(score.rank(means[best]))
        if len(means) > 1:
            return f"No method is {how} than {answer}: the best, {best}, has {top} ({basis}).", True
        return f"{best} ({top}) is not {how} than {answer} ({basis}).", True
    rest = [name for name in means if name not in better]
    if rest:
        are = "is" if len(rest) == 1 else "are"
        return f"{join_names(rest)} {are} not {compared(rest)} than {answer} ({basis}).", True
    return f"For comparison: {answer}.", False


def _paired(values: Scores, reference: Scores) -> list[float]:
    """The differences over the units that both have."""
    return [values[unit] - reference[unit] for unit in values if unit in reference]


def _paired_by_client(runs: Sequence[History], baseline: Sequence[History], score: Score) -> list[float]:
    """The difference of each client, its mean over the seeds that a method and the baseline share."""
    of_seed = {run.config.get("seed", 0): _by_client(run.clients, score) for run in reversed(baseline)}
    found: dict[Hashable, list[float]] = {}
    for run in runs:
        reference = of_seed.get(run.config.get("seed", 0), {})
        for client, value in _by_client(run.clients, score).items():
            if client in reference:
                found.setdefault(client, []).append(value - reference[client])
    return [float(np.mean(differences)) for differences in found.values()]


def _seeds(count: int) -> str:
    return "seed" if count == 1 else "seeds"


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
