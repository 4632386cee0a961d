"""The empirical epsilon of one run's noise, beside what the run states.

A canary takes the place of the run's data: its noise, draws, rounds and steps are the run's, and the samples are those
with which an attacker can do best (``canary.py``), since an epsilon is promised for any data. Both are at a delta of
0.01: no number of trials shows a violation at 1e-5.
"""

from __future__ import annotations

from typing import Any

from fedloom.audits.canary import CLIP
from fedloom.audits.lower_bound import CONFIDENCE
from fedloom.audits.privacy_audit import AuditRow, audit_case
from fedloom.audits.privacy_cases import DELTA, AuditCase, MeanCase, RepliesCase
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.privacy.ledger import PrivacyLedger
from fedloom.privacy.private_mean import PrivateMean
from fedloom.privacy.sampling import REPLACE
from fedloom.runs.prepare import prepare


def audit_of_run(task: Task, trials: int = 1000, confidence: float = CONFIDENCE, **settings: Any) -> AuditRow:
    """Play a canary against the noise of a run with ``fedavg``.

    Args:
        trials: How often each of two neighbours is played.
        confidence: The probability with which the bound holds.
        **settings: Settings of ``fl.run``, with ``sample_privacy`` or with ``aggregation="privatemean"``.
    """
    return audit_case(case_of_run(task, settings), trials, confidence)


def case_of_run(task: Task, settings: dict[str, Any]) -> AuditCase:
    """The mechanism of a run, with a canary for its data."""
    prepared = prepare(task, FedAvg(), resolve({"eval_every": 0, **settings}))
    config, privacy = prepared.config, prepared.composition.privacy
    if config.sample_privacy is not None:  # the client with the fewest samples has the largest rate
        work, fewest = config.local, int(task.federation.train.sizes.min())
        return RepliesCase(
            "sample_privacy of this run, its smallest client in every round",
            {
                "sample_privacy": {"noise": config.sample_privacy.multiplier, "clip": CLIP, "delta": DELTA},
                "local": {"lr": 1e-3, "batch_size": work.batch_size, "epochs": work.epochs, "steps": work.steps},
            },
            "privacy/sample_epsilon",
            "zero",
            samples=fewest,
            rounds=config.rounds,
        )
    if isinstance(config.aggregation, PrivateMean) and isinstance(privacy, PrivacyLedger):
        return MeanCase(
            "privatemean of this run",
            {"selection": config.selection},
            "opposite" if privacy.sampling.neighbours == REPLACE else "zero",
            noise=config.aggregation.multiplier,
            clients=task.federation.clients,
            rounds=config.rounds,
        )
    raise FedloomError(
        "this run has no noise that is audited: give sample_privacy, or aggregation='privatemean'; "
        "fedloom privacy --audit plays every mechanism."
    )
