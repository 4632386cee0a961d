"""The tasks and settings with which every method is tried in tests over all methods."""

from __future__ import annotations

import torch

from fedloom.conformance.overlapping_task import overlapping_task
from fedloom.core.task import Task
from fedloom.data.federation import Ragged
from fedloom.methods.registry import METHODS
from support.synthetic import federation, mlp

SETTINGS = {
    "fedhybridavglg": "threshold=40",
    "fedhybridavglgdual": "threshold=40",
    "fedseq": "min_samples=30,max_clients=3,pretrain_epochs=1",
    "fedseqinter": "min_samples=30,max_clients=3,pretrain_epochs=1",
    "cfl": "warmup=0",
    "fedharm": "k=2",
}
SELECTION = {"random": {"number": 2}, "powerofchoice": {"number": 2}}


def spec_of(method: str) -> str:
    """A method with the settings with which it is tried."""
    return f"{method}:{SETTINGS[method]}" if method in SETTINGS else method


def task_for(method: str) -> tuple[Task, dict[str, object]]:
    """The task on which a method is tried, and the local work there."""
    if METHODS[method].on_graphs:
        return GRAPHS, {"batch_size": 0, "lr": 0.05}
    return TASK, {"batch_size": 8, "lr": 0.05}


def six_clients() -> Task:
    """Six clients of two sizes with a validation part and a communal set."""
    from dataclasses import replace

    made = federation([36, 18, 30, 18, 24, 24], shape=(6,), classes=3)
    valid = Ragged.of([part[:4] for part in (made.train[k] for k in range(6))])
    train = Ragged.of([made.train[k][4:] for k in range(6)])
    model = mlp(6, 5, 3)
    model.stages = ("2",)  # type: ignore[assignment]
    return Task("t", replace(made, train=train, valid=valid, communal=torch.arange(0, 150, 10)), model)


TASK = six_clients()
GRAPHS = overlapping_task()
