"""Runs of the flow studies: their configuration, and how they are scored.

A value is the mean over the clients of a size group, then over the last five rounds, as in the thesis. Groups are by
a client's number of points. Small clients of the synthetic corpus have extra test flows, so that their mean is less
noisy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import fmean
from typing import Any

from fedloom.config.method_spec import with_method
from fedloom.core.errors import FedloomError
from fedloom.reproduce.study import StudyFinding, StudyTable, ahead_finding, mean_text
from fedloom.runs.plans.members import Member, folder_name
from fedloom.runs.results.baselines import baselines_of_runs
from fedloom.runs.results.history import History
from fedloom.tasks.flows.synthetic.client_sizes import thresholds
from fedloom.tasks.task import task as make

GROUPS = ("small", "intermediate", "big")
LAST, ROUNDS, BATCH = 5, 25, 32
LARGEST = 3_000
SMALL, BIG = thresholds(LARGEST)


@dataclass(frozen=True)
class CorpusSetting:
    """A corpus, scaled down so that a run takes minutes.

    ``bounds`` are the numbers of training points that separate small, intermediate and big clients. ``threshold`` is
    that of the hybrid methods, in points of all parts.
    """

    task: Mapping[str, Any]
    lr: float
    bounds: tuple[int, int]
    threshold: int
    withheld_action: tuple[str, list[int] | int] = ("DataSet", [8, 13])
    """An action of about every twentieth node, and the clients (or their number) that never train on it."""


SETTINGS = {
    "synthetic": CorpusSetting(
        {
            "name": "flows",
            "clients": 15,
            "options": {"largest": LARGEST},
            "model_options": {"width": 48, "blocks": 2},
            "test_share": 0.15,
            "valid_share": 0.15,
        },
        lr=0.1,
        bounds=(round(0.7 * SMALL), round(0.7 * BIG)),
        threshold=SMALL,
    ),
    "n8n": CorpusSetting(
        {
            "name": "n8n",
            "clients": 30,
            "model_options": {"width": 48, "blocks": 2},
            "test_share": 0.15,
            "valid_share": 0.15,
        },
        lr=0.1,
        bounds=(110, 300),
        threshold=157,
        withheld_action=("n8n-nodes-base.set", 2),
    ),
}
"""The synthetic corpus has the document's client sizes, scaled down; n8n has those of its owners."""

SPECS = {
    "Local": "local",
    "Central": "centralised",
    "FedAvg": "fedavg",
    "FedBABU": "fedbabu",
    "FedRep": "fedrep",
    "LG-FedAvg": "lgfedavg",
    "AvgLG": "fedhybridavglg",
    "Dual": "fedhybridavglgdual",
}
"""The document's methods, as written on the command line."""


def corpus_setting(data: str) -> CorpusSetting:
    """The setting of a corpus."""
    if data not in SETTINGS:
        raise FedloomError(f"This study has no corpus '{data}': use {' or '.join(SETTINGS)}.")
    return SETTINGS[data]


@cache
def withheld_action(data: str) -> dict[str, Any]:
    """The withheld action of a corpus in a task's configuration: the number of its class, and its clients."""
    kind, clients = corpus_setting(data).withheld_action
    names = make(**corpus_setting(data).task).federation.class_names
    return {"label": list(names).index(kind), "clients": clients}


def member(
    data: str,
    name: str,
    *,
    tuned: bool = False,
    lr: float | None = None,
    epochs: int = 1,
    every: int = 1,
    task: Mapping[str, Any] | None = None,
) -> Member:
    """One run: a method on a corpus, with fine-tuning before evaluation if ``tuned``."""
    where = corpus_setting(data)
    spec = SPECS[name] + (f":threshold={where.threshold}" if "hybrid" in SPECS[name] else "")
    spec += "+finetune" if tuned else ""
    rate = where.lr if lr is None else lr
    values: dict[str, Any] = {
        "task": {**where.task, **(task or {})},
        "local": {"lr": rate, "batch_size": BATCH, "epochs": epochs},
        "rounds": ROUNDS,
        "eval_every": every,
        "size_groups": list(where.bounds),
        "checkpoint_every": ROUNDS,
    }
    extra = f" E={epochs}" * (epochs > 1) + f" lr={rate:g}" * (lr is not None)
    label = f"{name}{'+FT' if tuned else ''}{extra}"
    return Member(label, folder_name(label), with_method(values, spec))


Values = dict[str, dict[str, list[float]]]
"""A value per seed, by label of the run and size group."""


def by_group(histories: Mapping[str, Sequence[History]]) -> Values:
    """The mean accuracy of each size group over the last rounds, for every run and seed."""
    return {
        label: {group: [_last_rounds_mean(history, group) for history in some] for group in GROUPS}
        for label, some in histories.items()
    }


def _last_rounds_mean(history: History, group: str) -> float:
    return fmean(history.series(f"client_model/own_test/accuracy/{group}")[1][-LAST:])


def _curve(history: History, group: str) -> list[float]:
    """The accuracy of a group after each round, from round 1 on."""
    return history.series(f"client_model/own_test/accuracy/{group}")[1][1:]


def round_changes(history: History, group: str) -> list[float]:
    """How much a group gained from each round to the next.

    Args:
        history: A run that was measured after every round.
        group: The size group.
    """
    return [after - before for before, after in pairwise(_curve(history, group))]


def share_of_rounds_above(one: History, other: History, group: str) -> float:
    """In which share of the rounds a group is better off with one method than with another.

    Args:
        one: A run that was measured after every round.
        other: A run of the other method with the same seed.
        group: The size group.
    """
    pairs = list(zip(_curve(one, group), _curve(other, group), strict=True))
    return sum(first > second for first, second in pairs) / len(pairs)


def group_table(title: str, values: Values, runs: Mapping[str, Sequence[History]]) -> StudyTable:
    """Accuracies in points: a row per run and per baseline of their task, a column per size group."""
    baselines = by_group({one.label: one.runs for one in baselines_of_runs(runs)})
    shown = {**values, **baselines}
    rows = tuple((label, *(mean_text(groups[group]) for group in GROUPS)) for label, groups in shown.items())
    return StudyTable(title, ("method", *GROUPS), rows)


def above_finding(values: Values, group: str, better: str, worse: str, by: float = 0.0, says: str = "") -> StudyFinding:
    """A finding of the document: one method above another in a group (by more than ``by``, in shares)."""
    one, other = values[better][group], values[worse][group]
    sentence = says or f"{group}: {better} is above {worse}" + (f" by {100 * by:g} points" if by > 0 else "") + "."
    if by < 0 and not says:
        sentence = f"{group}: {better} is not below {worse} (by {-100 * by:g} points at most)."
    return ahead_finding(sentence, f"{mean_text(one)} and {mean_text(other)}", one, other, by)
