"""Which classes clients' models take for which, counted once at the end of a simulation.

A deployment does not count it: the sums of its rows would tell the server how many samples of each class a site holds.
"""

from __future__ import annotations

import torch

from fedloom.core.task import Task
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import Engine, Job, LocalEngine
from fedloom.rounds.run_state import RunState

MOST_CLASSES = 100
MOST_CLIENTS = 1000


def has_confusion(task: Task) -> bool:
    """Whether a task's confusion is counted: its targets are classes, and neither they nor the clients are too many."""
    federation = task.federation
    return task.classifies and federation.classes <= MOST_CLASSES and federation.clients <= MOST_CLIENTS


def count_confusion(run: Composition, engine: Engine, state: RunState) -> list[list[int]]:
    """The counts over the test samples of all clients that took part in training, each predicted by its client's model.

    Empty in a deployment, and for a task without classes or with too many.

    Args:
        run: What the run is made of.
        engine: Where the clients' jobs run.
        state: The state after the last round.
    """
    task = run.task.at(state.round)
    if not isinstance(engine, LocalEngine) or not has_confusion(task):
        return []
    ids = [client for client in range(task.federation.clients) if client not in set(run.new_clients)]
    jobs = [Job("confusion", state.round, block, places) for block, places in run.blocks(ids)]
    results = engine.run(jobs, run.algorithm.broadcast(state.server, ids), state.client_states.read(ids))
    counts = torch.stack([result["confusion"] for result in results if result is not None]).sum(0)
    table: list[list[int]] = counts.view(task.federation.classes, -1).long().tolist()
    return table
