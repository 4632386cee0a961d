"""What a run left behind: the server's state and what clients kept, read from its last checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import fedloom as fl
from fedloom.core.task import Task
from fedloom.rounds.run_state import RunState
from fedloom.runs.checkpoint import load_checkpoint

WORK = {"epochs": 2, "batch_size": 16, "lr": 0.1}


def final(folder: Path, method: Any, task: Task, **settings: Any) -> RunState:
    """The state after a short run; unless told otherwise nothing is scored."""
    settings = {"rounds": 3, "seed": 3, "local": WORK, "eval_every": 0, "checkpoint_every": 1000, **settings}
    history = fl.run(task, method, out=folder, **settings)
    assert history.stopped is None, history.stopped
    state = load_checkpoint(folder, task.federation.clients)
    assert state is not None
    return state


def same(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Equal to the byte."""
    return one.numpy().tobytes() == two.numpy().tobytes()
