"""The baselines of some runs as rows of a table: what answering without a model scores, seed by seed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fedloom.rounds.score import Score
from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import Histories, last_value, over_seeds, runs_with_baselines

LABEL = "baseline: "
"""What the name of a baseline begins with, where those of methods stand too."""


@dataclass(frozen=True)
class NamedBaseline:
    """A baseline over seeds.

    Args:
        label: Its name in tables.
        words: What it does, behind "better than".
        runs: What it scored with each seed, as if it were a run.
    """

    label: str
    words: str
    runs: list[History]

    def mean(self, metric: str) -> float | None:
        """The mean of a metric over seeds; None if it was not measured."""
        return over_seeds([last_value(run, metric) for run in self.runs])[0]


def baselines_of_runs(histories: Histories) -> list[NamedBaseline]:
    """The baselines of the task of some runs; none where they were not measured, as in a deployment.

    Args:
        histories: The runs of each method, one per seed.
    """
    found: dict[str, NamedBaseline] = {}
    words: dict[str, set[str]] = {}
    for run in runs_with_baselines(histories):
        for one in run.baselines:
            name = str(one["name"])
            words.setdefault(name, set()).add(str(one["words"]))
            found.setdefault(name, NamedBaseline(LABEL + name, str(one["words"]), [])).runs.append(_as_run(run, one))
    return [NamedBaseline(one.label, words_of_seeds(name, words[name]), one.runs) for name, one in found.items()]


def words_of_seeds(name: str, words: Collection[str]) -> str:
    """What a baseline does, behind "better than"; its name where it answers differently with each seed.

    Args:
        words: What it does with each seed.
    """
    return next(iter(words)) if len(set(words)) == 1 else f"the baseline '{name}'"


def strongest_baseline(baselines: list[NamedBaseline], score: Score, metric: str) -> NamedBaseline | None:
    """The baseline with the best mean of a metric; None where none has it.

    Args:
        baselines: The baselines of some runs.
        score: Says which values are better.
        metric: The full name of the metric.
    """
    measured = [(one.mean(metric), one) for one in baselines]
    known = [(score.rank(mean), one) for mean, one in measured if mean is not None]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def _as_run(run: History, baseline: dict[str, object]) -> History:
    """What a baseline scored, as a run that costs nothing and measured the same after every round."""
    config = {key: value for key, value in run.config.items() if key not in ("prediction", "early_stopping")}
    record = {"selected": [], "steps": 0, "metrics": baseline["metrics"]}
    rounds = [one["round"] for one in run.records if one["metrics"]]
    return History(
        {**config, "method": {"name": LABEL + str(baseline["name"])}},
        records=[{"round": number, **record} for number in rounds],
        clients=baseline["clients"],  # type: ignore[arg-type]  # a list of rows, as it was written
    )
