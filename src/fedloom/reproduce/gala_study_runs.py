"""Runs of the Fed-GALA studies, on graphs that overlap between clients, and how they are scored.

The document evaluates each client's last local model, on its own graph (local) or on the whole graph (global), and
averages over clients with the method's own weights. We do the same, and also evaluate the shared model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedloom.config.method_spec import with_method
from fedloom.config.resolve import method_from_config
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.study import BASELINE, StudyRequest
from fedloom.runs.folder.load_config import load_config
from fedloom.runs.plans.members import Member, RunFactory, folder_name
from fedloom.runs.prepare import prepare
from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import GLOBAL
from fedloom.runs.runner import rescore

MODES = ("global", "local")
ROUNDS, ALONE = 300, 67
"""Most rounds of the federated methods (they stop earlier), and rounds that make 200 epochs without exchange."""


@dataclass(frozen=True)
class StudyMethod:
    """A method of the document: its name there, its spelling on the command line, and the weights of its mean."""

    name: str
    spec: str
    by_nodes: bool = False
    """Whether a client's weight is labels times nodes (the proposal) instead of labels."""
    rounds: int = ROUNDS

    @property
    def has_two_phases(self) -> bool:
        """Whether it trains in two phases; if so, it has a first tolerance."""
        return self.spec.startswith("fedgala")

    def command_line(self, first: float) -> str:
        """The method on the command line, with the first tolerance if it has two phases."""
        if not self.has_two_phases:
            return self.spec
        method, *stages = self.spec.split("+")
        return "+".join([f"{method}{',' if ':' in method else ':'}first_tolerance={first:g}", *stages])


CENTRAL = StudyMethod("Centralised", "centralised", rounds=ALONE)
LOCAL = StudyMethod("Local", "local", rounds=ALONE)
AVG, PROX = StudyMethod("FedAvg", "fedavgexit+own"), StudyMethod("FedProx", "fedproxexit+own")
AVG_SN = StudyMethod("FedAvg, s·n", "fedavgexit:weights=samples-points+own", by_nodes=True)
PROX_SN = StudyMethod("FedProx, s·n", "fedproxexit:weights=samples-points+own", by_nodes=True)
GALA, GALAP = (
    StudyMethod("Fed-GALA", "fedgala+own", by_nodes=True),
    StudyMethod("Fed-GALAp", "fedgalap+own", by_nodes=True),
)
NONE = StudyMethod("No-Augment", "fedgala:augment=none+own", by_nodes=True)
MOST = StudyMethod("Max-Augment", "fedgala:augment=own+own", by_nodes=True)
NONE_P = StudyMethod("No-Augment, prox", "fedgalap:augment=none+own", by_nodes=True)
MOST_P = StudyMethod("Max-Augment, prox", "fedgalap:augment=own+own", by_nodes=True)
AVG_STAYS = StudyMethod("FedAvg, no exits", "fedavgexit:tolerance=0+own")
NONE_STAYS = StudyMethod("No-Augment, no exits in phase 3", "fedgala:augment=none,tolerance=0+own", by_nodes=True)
GALA_STAYS = StudyMethod("Fed-GALA, no exits in phase 3", "fedgala:tolerance=0+own", by_nodes=True)
MAJORITY, OWN_MAJORITY = StudyMethod(BASELINE, ""), StudyMethod("baseline: each client's majority class", "")
"""Answers without a model, which no run plays."""


@dataclass(frozen=True)
class TrainingCase:
    """How many clients share the graph and how they train; the defaults fill in what the document does not state."""

    clients: int
    epochs: int = 3
    lr: float = 0.01
    momentum: float | None = None
    """SGD with this momentum instead of Adam."""

    @property
    def local(self) -> dict[str, Any]:
        """The settings of local training that differ from the task's."""
        sgd = {} if self.momentum is None else {"optimizer": "sgd", "momentum": self.momentum}
        return {"epochs": self.epochs, "lr": self.lr, **sgd}

    @property
    def label(self) -> str:
        """The case in a run's name."""
        how = f" lr={self.lr:g}" if self.lr != TrainingCase.lr or self.momentum is not None else ""
        return f"K={self.clients} E={self.epochs}{how}" + ("" if self.momentum is None else f" m={self.momentum:g}")


GalaScores = dict[tuple[StudyMethod, TrainingCase, str], list[float]]
"""A value per seed by method, case and kind: ``global`` and ``local`` are of clients' own models, ``shared global`` and
``shared local`` of the shared one, ``rounds`` is the number of rounds of the run for global tests."""


@dataclass(frozen=True)
class GalaPlan:
    """Which methods run on which graph in which cases."""

    graph: str
    cases: Sequence[TrainingCase]
    methods: Sequence[StudyMethod]

    def member(self, method: StudyMethod, case: TrainingCase, mode: str) -> Member:
        """One run of the study, whose models are tested in one way: alpha_1 was chosen for each."""
        table = "first_tolerance" if mode == "global" else "first_tolerance_local"
        tolerances = published("gala").tables[table].row(self.graph)
        spec = method.command_line(tolerances[str(case.clients)])
        values: dict[str, Any] = {
            "task": {"name": self.graph, "clients": case.clients, "options": {"split_seed": 0}},
            "local": case.local,
            "rounds": method.rounds,
            "eval_every": method.rounds,
            "checkpoint_every": method.rounds,
            "clients_on_global": True,
        }
        label = f"{spec} {case.label}"
        return Member(label, folder_name(label), with_method(values, spec))

    def members(self) -> list[Member]:
        """All runs; a run serves both tests where its method has no alpha_1, or the same for both."""
        every = [self.member(method, case, mode) for case in self.cases for method in self.methods for mode in MODES]
        return list({member.label: member for member in every}.values())

    def run(self, request: StudyRequest) -> GalaScores:
        """Run all members and score them, and what answering without a model scores."""
        histories, factory, scores = request.run(self.members()), RunFactory(kept_tasks=len(self.cases)), GalaScores()
        for case in self.cases:
            scores |= _baseline_scores(case, histories[self.member(self.methods[0], case, "global").label])
            for method in self.methods:
                for mode in MODES:
                    found = histories[self.member(method, case, mode).label]
                    if mode == "global":
                        scores[method, case, "rounds"] = [float(history.records[-1]["round"]) for history in found]
                    scores[method, case, mode] = [_own_models_score(history, method, mode) for history in found]
                    if method is not LOCAL:
                        scores[method, case, f"shared {mode}"] = [
                            _shared_model_score(h, method, mode, factory) for h in found
                        ]
        return scores


def _baseline_scores(case: TrainingCase, found: Sequence[History]) -> GalaScores:
    """What answering the most frequent class scores: of all clients' labels, and of each client's own."""
    by_name = [{one["name"]: one for one in history.baselines} for history in found]
    pooled, own = ([seed[name] for seed in by_name] for name in ("majority", "own majority"))
    return GalaScores({
        (MAJORITY, case, "global"): [float(one["metrics"][GLOBAL]) for one in pooled],
        (MAJORITY, case, "local"): [_weighted_mean(one["clients"], MAJORITY, "accuracy") for one in pooled],
        (OWN_MAJORITY, case, "local"): [_weighted_mean(one["clients"], OWN_MAJORITY, "accuracy") for one in own],
    })  # fmt: skip


def _own_models_score(history: History, method: StudyMethod, mode: str) -> float:
    """The clients' own models' accuracy, averaged by the method's weights."""
    return _weighted_mean(history.clients, method, "global_accuracy" if mode == "global" else "accuracy")


def _shared_model_score(history: History, method: StudyMethod, mode: str, factory: RunFactory) -> float:
    """The shared model's accuracy, averaged in the same way."""
    if mode == "global" or history.folder is None:
        return float(history.last(GLOBAL) or 0.0)
    config = load_config(history.folder).model_copy(update={"prediction": [], "workers": 1})
    prepared = prepare(factory.task(config), method_from_config(config), config)
    return _weighted_mean(rescore(prepared, history.folder), method, "accuracy")


def _weighted_mean(rows: Sequence[Mapping[str, Any]], method: StudyMethod, name: str) -> float:
    """The mean over clients with a test node, by the method's weights."""
    here = [row for row in rows if row[name] is not None]
    weights = [row["train"] * (row["points"] if method.by_nodes else 1) for row in here]
    return float(sum(w * row[name] for w, row in zip(weights, here, strict=True)) / sum(weights))
