"""Fedloom: federated learning when clients differ.

>>> import fedloom as fl
>>> task = fl.task("digits", clients=20, partition=fl.dirichlet(0.1))
>>> history = fl.run(task, fl.FedProx(mu=0.1), rounds=10)
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.4.0"

_WHERE = {
    "fedloom.runs.api": ("run", "compare", "resume"),
    "fedloom.runs.sweep": ("sweep", "Sweep"),
    "fedloom.runs.advise": ("advise",),
    "fedloom.runs.advice": ("Advice",),
    "fedloom.runs.history": ("History",),
    "fedloom.tasks": ("task", "task_of", "Task"),
    "fedloom.data.partitions": (
        "iid", "dirichlet", "shards", "classes_per_client", "quantities", "power_law", "natural",
    ),
    "fedloom.data.own": ("own", "from_arrays"),
    "fedloom.data.federation": ("Federation", "Ragged"),
    "fedloom.core.algorithm": ("Algorithm", "State"),
    "fedloom.core.cohort": ("Cohort",),
    "fedloom.core.message": ("Message", "Reply", "Replies", "Wave"),
    "fedloom.core.site": ("Site",),
    "fedloom.core.stage": ("Stage",),
    "fedloom.core.pool": ("Pool", "Choice"),
    "fedloom.core.work": ("LocalWork",),
    "fedloom.core.cycle": ("Cycle",),
    "fedloom.core.stacked": ("Affine",),
    "fedloom.core.layout": ("Layout",),
    "fedloom.aggregation": ("ServerOptimizer",),
    "fedloom.selection.random": ("Random",),
    "fedloom.selection.power_of_choice": ("PowerOfChoice",),
    "fedloom.selection.rawcs": ("RAWCS",),
    "fedloom.selection.oort": ("Oort",),
    "fedloom.algorithms.fedavg": ("FedAvg", "FedProx", "FedAvgM", "FedAdagrad", "FedAdam", "FedYogi"),
    "fedloom.algorithms.drift": ("SCAFFOLD", "FedDyn"),
    "fedloom.algorithms.decoupled": ("FedPer", "LGFedAvg", "FedRep", "FedBABU"),
    "fedloom.algorithms.hybrid": ("FedHybridAvgLG", "FedHybridAvgLGDual"),
    "fedloom.algorithms.threshold": ("curve_of",),
    "fedloom.algorithms.clustered": ("CFL", "FeSEM", "IFCA"),
    "fedloom.algorithms.meta": ("PerFedAvg", "PFedMe"),
    "fedloom.algorithms.multitask": ("FedU", "Ditto"),
    "fedloom.algorithms.representation": ("MOON", "FedProto"),
    "fedloom.algorithms.sequential": ("FedSeq", "FedSeqInter"),
    "fedloom.algorithms.exits": ("FedAvgExit", "FedProxExit"),
    "fedloom.algorithms.gala": ("FedGala", "FedGalaP"),
    "fedloom.algorithms.baselines": ("Local", "Centralised", "FedSGD"),
    "fedloom.personal.fedpredict": ("FedPredict",),
    "fedloom.personal.finetune": ("FineTune",),
    "fedloom.personal.own": ("Own",),
    "fedloom.personal.recalibrate": ("Recalibrate",),
    "fedloom.data.drift": ("drifting",),
    "fedloom.data.withhold": ("withholding",),
    "fedloom.errors": ("FedloomError",),
}  # fmt: skip
_HOME = {name: module for module, names in _WHERE.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import fedloom`` costs next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'fedloom' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
