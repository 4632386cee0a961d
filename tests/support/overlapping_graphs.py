"""Runs of the graph methods on three small overlapping graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fedloom as fl
from fedloom.conformance.overlapping_task import overlapping_task
from fedloom.rounds.run_state import RunState
from support.checkpoints import final

WORK = {"epochs": 3, "batch_size": 0, "optimizer": "adam", "lr": 0.01, "weight_decay": 5e-4}
NEVER = {"tolerance": 0.0, "first_tolerance": 0.0}


def final_on_graphs(folder: Path, method: Any, rounds: int = 6) -> RunState:
    """The state after a short run."""
    return final(folder, method, overlapping_task(), rounds=rounds, local=WORK)


def run_on_graphs(method: Any, rounds: int = 6, **settings: Any) -> fl.History:
    """The history of a short run."""
    return fl.run(overlapping_task(), method, rounds=rounds, seed=3, local=WORK, **settings)
