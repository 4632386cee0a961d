"""The tasks and settings with which every method is tried in tests over all methods."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from fedloom.conformance.overlapping_task import overlapping_task
from fedloom.core.facts import Fact, needed_facts
from fedloom.core.task import Task
from fedloom.data.federation import Ragged
from fedloom.registry.kinds import METHODS
from support.synthetic import federation, mlp

SETTINGS = {
    "fedhybridavglg": "threshold=40",
    "fedhybridavglgdual": "threshold=40",
    "fedseq": "min_samples=30,max_clients=3,pretrain_epochs=1",
    "fedseqinter": "min_samples=30,max_clients=3,pretrain_epochs=1",
    "cfl": "warmup=0",
    "fedharm": "k=2",
    **dict.fromkeys(("fedsimclr", "fedsimsiam", "perfcl"), "projection=4"),
    "fedca": "projection=4,dictionary=3,base_epochs=1",
    "fedcon": "projection=4",
    "fedlid": "projection=4,server_epochs=1",
}
SELECTION = {"random": {"number": 2}, "powerofchoice": {"number": 2}}


def spec_of(method: str) -> str:
    """A method with the settings with which it is tried."""
    return f"{method}:{SETTINGS[method]}" if method in SETTINGS else method


def task_for(method: str) -> tuple[Task, dict[str, object]]:
    """The task on which a method is tried, and the local work there."""
    if Fact.GRAPHS in needed_facts(METHODS[method]()):
        return GRAPHS, {"batch_size": 0, "lr": 0.05}
    if Fact.BATCHNORM in needed_facts(METHODS[method]()):
        return NORMED, {"batch_size": 8, "lr": 0.05}
    return IMAGES if Fact.IMAGES in needed_facts(METHODS[method]()) else TASK, {"batch_size": 8, "lr": 0.05}


def six_clients() -> Task:
    """Six clients of two sizes with a validation part and a communal set."""
    made = federation([36, 18, 30, 18, 24, 24], shape=(6,), classes=3)
    valid = Ragged.of([part[:4] for part in (made.train[k] for k in range(6))])
    train = Ragged.of([made.train[k][4:] for k in range(6)])
    model = mlp(6, 5, 3)
    model.stages = ("2",)  # type: ignore[assignment]
    return Task("t", replace(made, train=train, valid=valid, communal=torch.arange(0, 150, 10)), model)


def as_images(task: Task) -> Task:
    """The same task with its six features as the pixels of small images, and images of the server."""
    made = task.federation
    columns = {**made.columns, "x": made.columns["x"].view(-1, 1, 2, 3)}
    return replace(task, federation=replace(made, columns=columns, server=torch.arange(5, 150, 10), server_classes=3))


def with_batchnorm(task: Task) -> Task:
    """The same task with a BatchNorm layer before the activation."""
    flat, first, *others = task.model.children()
    return replace(task, model=nn.Sequential(flat, first, nn.BatchNorm1d(5), *others))


TASK = six_clients()
IMAGES = as_images(TASK)
NORMED = with_batchnorm(IMAGES)
GRAPHS = overlapping_task()
