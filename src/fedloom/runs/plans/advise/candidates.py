"""The candidates of ``fedloom advise``: one table of methods with their main settings.

A line is used only if its method and its stages are registered. Every main setting is also tried with a higher and a
lower learning rate than the task's, and every other setting only with the task's: a cross, not a full grid.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedloom.config.method_spec import label_of, spec_without_settings, with_method
from fedloom.config.resolve import method_from_config, resolve
from fedloom.core.errors import unknown
from fedloom.core.facts import Fact, holds
from fedloom.core.task import Task
from fedloom.registry.kinds import METHODS, PREDICTION_STAGES

ANCHOR = "local"
CANDIDATES: tuple[tuple[str, ...], ...] = (
    (ANCHOR,),
    ("fedavg",),
    ("fedavg+finetune", "fedavg+finetune:epochs=5"),
    ("fedavg+fedpredict",),
    ("fedper",),
    ("fedrep", "fedrep:head_epochs=5"),
    ("ditto", "ditto:lam=1"),
    ("lgfedavg",),
    ("fedbabu+finetune", "fedbabu+finetune:epochs=5"),
    ("scaffold",),
    ("fedprox:mu=0.1", "fedprox:mu=1"),
    ("feddyn", "feddyn:alpha=0.01"),
    ("fedavgm",),
    ("perfedavg", "perfedavg:alpha=0.1"),
    ("fedhybridavglgdual:threshold=auto",),
    ("ifca", "ifca:clusters=4"),
    ("fedseq",),
    ("fedyogi",),
)
"""A line per method: its main setting first, then others. All are tried with the task's learning rate."""
FOR_TASKS_WITH: dict[str, tuple[tuple[str, ...], ...]] = {
    "communal": (("fld", "fld:epochs=5"), ("fedmd",), ("dsfl",), ("feddf",), ("fedfmrl",)),
    "models": (("fedproto",), ("fdfaug",), ("fedharm",), ("heterofl",), ("fjord", "fjord:alpha=1")),
    "stream": (("fedavgexemplars",), ("fedrcil",)),
    "server_set": (("feddf",), ("fedlid",)),
}
"""More lines, by what a task has: samples that all clients share, clients whose models differ, classes that come in
tasks, samples of the server."""
RATES = (3.0, 1 / 3)
"""Factors of the task's learning rate with which each main setting is also tried."""


@dataclass(frozen=True)
class Candidate:
    """A method's spec and a local learning rate."""

    spec: str
    lr: float

    @property
    def label(self) -> str:
        """The candidate's name."""
        return f"{self.spec} lr={self.lr:g}"


def families(methods: Sequence[str] | None = None, task_has: Collection[str] = ()) -> list[tuple[str, ...]]:
    """The lines of the table whose methods are registered, or those of the given methods, always with ``local``.

    Args:
        methods: Specs of methods; None for all that suit the task.
        task_has: Keys of ``FOR_TASKS_WITH``.
    """
    special = [line for what, lines in FOR_TASKS_WITH.items() if methods or what in task_has for line in lines]
    table = [line for line in dict.fromkeys([*CANDIDATES, *special]) if _exists(line[0])]
    if methods is None:
        return [line for line in table if "models" not in task_has or _mixes_models(line[0])]
    chosen: list[tuple[str, ...]] = [line for line in table if line[0] == ANCHOR]
    for text in methods:
        _check_method(text)
        spec = label_of(text)
        lines = [line for line in table if spec in (line[0], method_of(line[0]))] or [(spec,)]
        chosen += [line for line in lines if line not in chosen]
    return chosen


def parts_of(settings: Mapping[str, Any]) -> list[str]:
    """The keys of ``FOR_TASKS_WITH`` that a task has.

    Args:
        settings: The section ``task`` of a config.
    """
    shared = settings.get("communal") or settings.get("communal_per_class")
    return [part for part in FOR_TASKS_WITH if ({**settings, "communal": shared}).get(part)]


def parts_of_task(task: Task) -> list[str]:
    """The keys of ``FOR_TASKS_WITH`` that a task has."""
    made = task.federation
    has = {
        "communal": len(made.communal) > 0,
        "models": task.architectures is not None,
        "stream": made.seen is not None,
        "server_set": len(made.server) > 0,
    }
    return [part for part in FOR_TASKS_WITH if has[part]]


def method_of(spec: str) -> str:
    """A candidate's method and stages without their settings."""
    return spec_without_settings(spec.partition(" lr=")[0])


def candidates(lines: Sequence[tuple[str, ...]], lr: float) -> list[Candidate]:
    """All candidates: every method once, then other learning rates, then other settings."""
    mains = [Candidate(line[0], lr) for line in lines]
    rates = [Candidate(line[0], float(f"{rate * lr:.2g}")) for rate in RATES for line in lines]
    deepest = max(len(line) for line in lines)
    return [*mains, *rates, *(Candidate(line[n], lr) for n in range(1, deepest) for line in lines if n < len(line))]


def _exists(spec: str) -> bool:
    name, *stages = method_of(spec).split("+")
    return name in METHODS and all(stage in PREDICTION_STAGES for stage in stages)


def _mixes_models(spec: str) -> bool:
    """Whether a candidate's clients may have different models."""
    return holds(Fact.MIXED_MODELS, method_from_config(resolve(with_method({}, spec))))


def _check_method(text: str) -> None:
    name, *stages = method_of(text).split("+")
    METHODS.find(name)
    for stage in stages:
        if ":" not in stage and PREDICTION_STAGES.canonical(stage) not in PREDICTION_STAGES:
            raise unknown("stage", stage, PREDICTION_STAGES)
