"""Runs on action flows, and how they are scored: the machinery of the flow studies.

A value is the mean over the clients of a size group, then over the last five rounds, as in the thesis. Groups are by
what a client holds; small clients of the synthetic corpus have extra test flows, so that their mean is worth something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.reproduce.study import Finding, Table, ahead, spread
from fedloom.runs.api import with_method
from fedloom.runs.history import History
from fedloom.runs.plans.plan import Member, file_name
from fedloom.tasks.flows.synthetic.client_sizes import thresholds
from fedloom.tasks.task import task as make

GROUPS = ("small", "intermediate", "big")
LAST, ROUNDS, BATCH = 5, 25, 32
LARGEST = 3_000
SMALL, BIG = thresholds(LARGEST)


@dataclass(frozen=True)
class Setting:
    """A corpus at a scale of minutes: its task, its local work, from which sizes on clients are no longer small or are
    big (training points), and the hybrids' threshold (all points)."""

    task: Mapping[str, Any]
    lr: float
    bounds: tuple[int, int]
    threshold: int
    withheld: tuple[str, list[int] | int] = ("DataSet", [8, 13])
    """An action that about every twentieth node is, and the clients (or how many of them) that never train on it."""


SETTINGS = {
    "synthetic": Setting(
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
    "n8n": Setting(
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
        withheld=("n8n-nodes-base.set", 2),
    ),
}
"""The synthetic corpus keeps the document's sizes, on a shorter scale; n8n's owners are what they are."""

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
"""The document's methods, as they are written here."""


def setting(data: str) -> Setting:
    """The setting of a corpus."""
    if data not in SETTINGS:
        raise FedloomError(f"there is no corpus '{data}' for this study: use {' or '.join(SETTINGS)}.")
    return SETTINGS[data]


@cache
def withheld(data: str) -> dict[str, Any]:
    """The withheld action of a corpus, as a task's configuration names it: by the number of its class."""
    kind, clients = setting(data).withheld
    names = make(**setting(data).task).federation.class_names
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
    """One run: a method on a corpus, with fine-tuning before it is scored if ``tuned``."""
    where = setting(data)
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
    return Member(label, file_name(label), with_method(values, spec))


Values = dict[str, dict[str, list[float]]]
"""By label of a run, then by size group: a value per seed."""


def by_group(histories: Mapping[str, Sequence[History]]) -> Values:
    """The mean accuracy of each size group over the last rounds, for every run and seed."""
    return {
        label: {group: [_last(history, group) for history in some] for group in GROUPS}
        for label, some in histories.items()
    }


def _last(history: History, group: str) -> float:
    return fmean(history.series(f"client_model/own_test/accuracy/{group}")[1][-LAST:])


def slope(history: History, group: str) -> float:
    """How much a group gained from the first third of the rounds to the last one."""
    values = history.series(f"client_model/own_test/accuracy/{group}")[1][1:]
    third = max(len(values) // 3, 1)
    return fmean(values[-third:]) - fmean(values[third : 2 * third])


def table(title: str, values: Values) -> Table:
    """Accuracies in points: a row per run, a column per size group."""
    rows = tuple((label, *(spread(groups[group]) for group in GROUPS)) for label, groups in values.items())
    return Table(title, ("method", *GROUPS), rows)


def above(values: Values, group: str, better: str, worse: str, by: float = 0.0, says: str = "") -> Finding:
    """A finding of the document: one method above another in a group (by more than ``by``, in shares)."""
    one, other = values[better][group], values[worse][group]
    sentence = says or f"{group}: {better} is above {worse}" + (f" by {100 * by:g} points" if by > 0 else "") + "."
    if by < 0 and not says:
        sentence = f"{group}: {better} is not below {worse} (by {-100 * by:g} points at most)."
    return ahead(sentence, f"{spread(one)} and {spread(other)}", one, other, by)
