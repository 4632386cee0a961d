"""The score of a run: the metric that tables, figures, sweeps and advice show, and which of its values are better.

A run notes the metrics of its task in its config (``made_by``), so that its folder can be read without the task and
without the files of user-defined metrics. Without metrics, the score is accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedloom.core.metric import Metric

NOTE = "metric/"
"""The prefix of a metric's note in ``made_by``."""
ABBREVIATIONS = ("f1", "auc", "mae", "rmse", "r2")
HIGHER, LOWER, PERCENT = "higher is better", "lower is better", ", in per cent"


@dataclass(frozen=True)
class Score:
    """A metric as results show it.

    Args:
        name: The name of the metric.
        higher_is_better: Whether a higher value is better.
        is_share: Whether its values are shares, shown in per cent.
    """

    name: str = "accuracy"
    higher_is_better: bool = True
    is_share: bool = True

    @property
    def clients(self) -> str:
        """The record of clients' models on their own test parts, mean of clients."""
        return f"client_model/own_test/{self.name}/mean"

    def over_clients(self, aggregate: str) -> str:
        """The same, but another aggregate of clients: ``std``, ``worst_decile``, ``new`` ..."""
        return f"client_model/own_test/{self.name}/{aggregate}"

    @property
    def shared(self) -> str:
        """The record of the shared model on the global test set."""
        return f"global_model/global_test/{self.name}"

    @property
    def title(self) -> str:
        """The name in words: ``macro F1`` of ``macro_f1``."""
        return " ".join(word.upper() if word in ABBREVIATIONS else word for word in self.name.split("_"))

    @property
    def heading(self) -> str:
        """The name in words, as a sentence begins with it."""
        return self.title[0].upper() + self.title[1:]

    @property
    def axis(self) -> str:
        """The name and the unit, for an axis."""
        return f"{self.title} (%)" if self.is_share else self.title

    @property
    def best(self) -> str:
        """What the best value is called."""
        return "highest" if self.higher_is_better else "lowest"

    def rank(self, value: float) -> float:
        """A number that is higher the better a value is."""
        return value if self.higher_is_better else -value

    def text(self, mean: float, std: float | None = None) -> str:
        """A value for people: ``87.3 ± 0.6 %``, or ``0.4182 ± 0.01``."""
        if self.is_share:
            return f"{100 * mean:.1f}{'' if std is None else f' ± {100 * std:.1f}'} %"
        return f"{number_text(mean, 4)}{'' if std is None else f' ± {number_text(std, 2)}'}"

    def gap_text(self, gap: float) -> str:
        """A difference of two values for people: ``1.2 points``, or ``0.013``."""
        return f"{100 * gap:.1f} points" if self.is_share else number_text(gap, 3)


def number_text(value: float, digits: int) -> str:
    """A number for people, with some significant digits and no exponent below a million: ``1610``, ``0.0042``."""
    shown = f"{value:.{digits}g}"
    return f"{float(shown):.0f}" if "e+" in shown and abs(float(shown)) < 1e6 else shown


ACCURACY = Score()


def score_from(metrics: Sequence[Metric]) -> Score:
    """The score of a task with these metrics."""
    return next((Score(one.name, one.higher_is_better, one.is_share) for one in metrics), ACCURACY)


def metric_notes(metrics: Sequence[Metric]) -> dict[str, str]:
    """What a run's config notes of its task's metrics, the score first."""
    return {
        f"{NOTE}{metric.name}": (HIGHER if metric.higher_is_better else LOWER) + (PERCENT if metric.is_share else "")
        for metric in metrics
    }


def scores_of(config: Mapping[str, Any]) -> list[Score]:
    """The metrics that a run's config notes, the score first; empty without any."""
    notes = config.get("made_by", {})
    return [
        Score(name.removeprefix(NOTE), not words.startswith(LOWER), words.endswith(PERCENT))
        for name, words in notes.items()
        if name.startswith(NOTE)
    ]


def score_of(config: Mapping[str, Any]) -> Score:
    """The score of a run."""
    return next(iter(scores_of(config)), ACCURACY)


def lower_is_better(metric: str, known: Sequence[Score] = ()) -> bool:
    """Whether a lower value of a metric is better: losses, errors and spreads, and what the task says of its own."""
    if metric.endswith("/std"):
        return True
    own = _own_score(metric, known)
    return "loss" in metric or "error" in metric if own is None else not own.higher_is_better


def is_share(metric: str, known: Sequence[Score] = ()) -> bool:
    """Whether a metric is a share, shown in per cent."""
    own = _own_score(metric, known)
    return "accuracy" in metric or "recall" in metric if own is None else own.is_share


def _own_score(metric: str, known: Sequence[Score]) -> Score | None:
    """What is known of the metric that a full name is about."""
    return next((score for score in known if f"/{score.name}/" in f"{metric}/"), None)
