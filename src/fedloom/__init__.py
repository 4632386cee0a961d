"""Fedloom: federated learning when clients differ.

>>> import fedloom as fl
>>> task = fl.task("digits", clients=20, partition=fl.dirichlet(0.1))
>>> history = fl.run(task, fl.FedProx(mu=0.1), rounds=10)
"""

from __future__ import annotations

import importlib
from typing import Any

from fedloom.registry import builtin as _builtin

__version__ = "0.7.0.dev0"

_WHERE = {
    "fedloom.api.run": ("run",),
    "fedloom.api.resume": ("resume",),
    "fedloom.api.compare": ("compare", "Comparison"),
    "fedloom.api.report": ("report",),
    "fedloom.api.plot": ("plot",),
    "fedloom.runs.plans.sweep": ("sweep", "Sweep"),
    "fedloom.runs.plans.advise.advise": ("advise",),
    "fedloom.runs.plans.advise.advice": ("Advice",),
    "fedloom.audits.of_run.run_audit": ("audit",),
    "fedloom.audits.of_run.result": ("Audit",),
    "fedloom.runs.results.history": ("History",),
    "fedloom.runs.callbacks.callback": ("Callback",),
    "fedloom.runs.callbacks.copy_checkpoints": ("CopyCheckpoints",),
    "fedloom.rounds.client_work": ("ClientWork",),
    "fedloom.tasks.task": ("task",),
    "fedloom.tasks.own_data": ("task_of",),
    "fedloom.core.task": ("Task",),
    "fedloom.data.partition.partitioner": (
        *("iid", "dirichlet", "shards", "classes_per_client", "quantities", "power_law", "natural"),
    ),
    "fedloom.data.read": ("read",),
    "fedloom.data.from_arrays": ("from_arrays",),
    "fedloom.data.federation": ("Federation", "Ragged"),
    "fedloom.core.algorithm": ("Algorithm", "State"),
    "fedloom.core.cohort": ("Cohort",),
    "fedloom.core.message": ("Message", "Reply", "Replies", "Wave"),
    "fedloom.core.server_context": ("ServerContext",),
    "fedloom.core.prediction_stage": ("PredictionStage",),
    "fedloom.core.selector": ("Pool", "Choice"),
    "fedloom.core.local_work": ("LocalWork",),
    "fedloom.channel.downlink": ("Downlink",),
    "fedloom.privacy.sample_privacy": ("SamplePrivacy",),
    "fedloom.core.model.sub_models": ("FederatedDropout",),
    "fedloom.core.cycle": ("Cycle",),
    "fedloom.core.trainer": ("LossStep",),
    "fedloom.core.pull": ("Affine",),
    "fedloom.core.layout": ("Layout",),
    "fedloom.core.model.adapted_model": ("add_modules",),
    "fedloom.core.model.low_rank_adapters": ("merge_adapters",),
    "fedloom.aggregation.server_optimizer": ("ServerOptimizer",),
    "fedloom.core.declarations": ("Model", "Update", "Statistic", "Scalar"),
    "fedloom.core.aggregator": ("Aggregator", "AggregationContext"),
    "fedloom.core.channel_step": ("ChannelStep", "Sender"),
    "fedloom.core.adversary": ("Adversary",),
    "fedloom.core.attack": ("Attack",),
    "fedloom.core.metric": ("Metric",),
    "fedloom.core.objective": ("Loss",),
    "fedloom.core.facts": ("Fact",),
    "fedloom.aggregation.robust_rule": ("RobustRule", "ShareRule"),
    "fedloom.methods.size_threshold": ("curve_of",),
    "fedloom.methods.fedharm.block_alignment": ("align_blocks",),
    "fedloom.data.changes.concept_drift": ("with_concept_drift",),
    "fedloom.data.changes.withheld_class": ("with_withheld_class",),
    "fedloom.core.errors": ("FedloomError", "StoppedWarning", "StopRun"),
}  # fmt: skip
"""The public names that are not parts with a name of their own."""
_TABLES = (
    *(_builtin.METHODS, _builtin.SELECTORS, _builtin.AGGREGATORS, _builtin.CHANNEL_STEPS),
    *(_builtin.ATTACKS, _builtin.PREDICTION_STAGES, _builtin.LOSSES, _builtin.METRICS),
)
"""The parts whose classes are public names."""
_HOME = {name: module for module, names in _WHERE.items() for name in names}
_HOME |= {name: module for table in _TABLES for module, name in (entry.split(":") for entry in table.values())}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import fedloom`` costs next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'fedloom' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
