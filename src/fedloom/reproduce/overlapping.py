"""Runs on graphs that overlap, and how they are scored: the machinery of the Fed-GALA studies.

The document scores each client's own last model, on its own graph (local) or on the whole graph (global), and averages
over clients by the method's own weights. So do we, and keep the shared model's scores beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedloom.reproduce.study import Asked
from fedloom.reproduce.tavakoli import FIRST_TOLERANCE
from fedloom.runs.api import load_config, local_values, method_of, with_method
from fedloom.runs.history import History
from fedloom.runs.plans.plan import Member, Workshop, file_name
from fedloom.runs.runner import prepare, rescore
from fedloom.runs.statistics import GLOBAL

MODES = ("global", "local")
ROUNDS, ALONE = 300, 67
"""Rounds of the federated methods (they end before), and of 200 epochs without exchange."""


@dataclass(frozen=True)
class Way:
    """A method of the document: its name there, how it is written here, and by which weights it is scored."""

    name: str
    spec: str
    by_nodes: bool = False
    """Whether clients count by labels times nodes (the proposal) and not by labels."""
    rounds: int = ROUNDS

    @property
    def phased(self) -> bool:
        """Whether it has a first phase, and so a first tolerance."""
        return self.spec.startswith("fedgala")

    def written(self, first: float) -> str:
        """The method on the command line; those with two phases get a first tolerance."""
        if not self.phased:
            return self.spec
        method, *stages = self.spec.split("+")
        return "+".join([f"{method}{',' if ':' in method else ':'}first_tolerance={first:g}", *stages])


CENTRAL = Way("Centralised", "centralised", rounds=ALONE)
LOCAL = Way("Local", "local", rounds=ALONE)
AVG, PROX = Way("FedAvg", "fedavgexit+own"), Way("FedProx", "fedproxexit+own")
AVG_SN = Way("FedAvg, s·n", "fedavgexit:weights=samples-points+own", by_nodes=True)
PROX_SN = Way("FedProx, s·n", "fedproxexit:weights=samples-points+own", by_nodes=True)
GALA, GALAP = Way("Fed-GALA", "fedgala+own", by_nodes=True), Way("Fed-GALAp", "fedgalap+own", by_nodes=True)
NONE = Way("No-Augment", "fedgala:augment=none+own", by_nodes=True)
MOST = Way("Max-Augment", "fedgala:augment=own+own", by_nodes=True)
NONE_P = Way("No-Augment, prox", "fedgalap:augment=none+own", by_nodes=True)
MOST_P = Way("Max-Augment, prox", "fedgalap:augment=own+own", by_nodes=True)


@dataclass(frozen=True)
class Case:
    """How many clients share the graph, and how they train: what the document leaves open is the default here."""

    clients: int
    epochs: int = 3
    lr: float = 0.01
    momentum: float | None = None
    """SGD with this momentum in the place of Adam."""

    @property
    def local(self) -> dict[str, Any]:
        """The local work that differs from the task's."""
        sgd = {} if self.momentum is None else {"optimizer": "sgd", "momentum": self.momentum}
        return {"epochs": self.epochs, "lr": self.lr, **sgd}

    @property
    def label(self) -> str:
        """The case in a run's name."""
        how = f" lr={self.lr:g}" if self.lr != Case.lr or self.momentum is not None else ""
        return f"K={self.clients} E={self.epochs}{how}" + ("" if self.momentum is None else f" m={self.momentum:g}")


Scores = dict[tuple[Way, Case, str], list[float]]
"""A value per seed by method, case and what was scored: ``global`` and ``local`` are clients' own models, ``shared
global`` and ``shared local`` the shared one, ``rounds`` how many there were."""


@dataclass(frozen=True)
class Plan:
    """Which methods are played on which graph in which cases."""

    graph: str
    cases: Sequence[Case]
    ways: Sequence[Way]

    def member(self, way: Way, case: Case) -> Member:
        """One run of the study."""
        spec = way.written(FIRST_TOLERANCE[self.graph, case.clients])
        values: dict[str, Any] = {
            "task": {"name": self.graph, "clients": case.clients, "options": {"split_seed": 0}},
            "local": local_values(self.graph, case.local),
            "rounds": way.rounds,
            "eval_every": way.rounds,
            "checkpoint_every": way.rounds,
            "clients_on_global": True,
        }
        label = f"{spec} {case.label}"
        return Member(label, file_name(label), with_method(values, spec))

    def members(self) -> list[Member]:
        """All runs."""
        return [self.member(way, case) for case in self.cases for way in self.ways]

    def play(self, asked: Asked) -> Scores:
        """Play all runs and score them."""
        histories, workshop, scores = asked.play(self.members()), Workshop(remembers=len(self.cases)), Scores()
        for case in self.cases:
            for way in self.ways:
                found = histories[self.member(way, case).label]
                scores[way, case, "rounds"] = [float(history.records[-1]["round"]) for history in found]
                for mode in MODES:
                    scores[way, case, mode] = [_own(history, way, mode) for history in found]
                    if way is not LOCAL:
                        scores[way, case, f"shared {mode}"] = [_shared(h, way, mode, workshop) for h in found]
        return scores


def _own(history: History, way: Way, mode: str) -> float:
    """The clients' own models' accuracy, averaged by the method's weights."""
    return _mean(history.clients, way, "global_accuracy" if mode == "global" else "accuracy")


def _shared(history: History, way: Way, mode: str, workshop: Workshop) -> float:
    """The same of the shared model."""
    if mode == "global" or history.folder is None:
        return float(history.last(GLOBAL) or 0.0)
    config = load_config(history.folder).model_copy(update={"personal": [], "workers": 1})
    prepared = prepare(workshop.task(config), method_of(config), config)
    return _mean(rescore(prepared, history.folder), way, "accuracy")


def _mean(rows: Sequence[Mapping[str, Any]], way: Way, name: str) -> float:
    """The mean over clients with a test node, by the method's weights."""
    here = [row for row in rows if row[name] is not None]
    weights = [row["train"] * (row["points"] if way.by_nodes else 1) for row in here]
    return float(sum(w * row[name] for w, row in zip(weights, here, strict=True)) / sum(weights))
