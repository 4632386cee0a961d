"""What a run left behind: the server's state and what clients kept, read from its last checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import fedloom as fl
from fedloom.core.task import Task
from fedloom.rounds.run_state import RunState
from fedloom.runs.folder.checkpoint import load_checkpoint
from support.synthetic import distance, small_task

WORK = {"epochs": 2, "batch_size": 16, "lr": 0.1}


def final(folder: Path, method: Any, task: Task | None = None, **settings: Any) -> RunState:
    """The state after a short run; unless the settings say otherwise nothing is scored."""
    task = task or small_task()
    settings = {"rounds": 3, "seed": 3, "local": WORK, "eval_every": 0, "checkpoint_every": 1000, **settings}
    history = fl.run(task, method, out=folder, **settings)
    assert history.stopped is None, history.stopped
    state = load_checkpoint(folder, task.federation.clients)
    assert state is not None
    return state


def final_row(folder: Path, method: Any, task: Task | None = None, **settings: Any) -> torch.Tensor:
    """The server's row after a short run."""
    return final(folder, method, task, **settings).server["row"]


def checkpoint_tensors(folder: Path, kind: str = "round") -> dict[str, torch.Tensor]:
    """The tensors in the last checkpoint file of one kind."""
    return load_file(sorted(folder.glob(f"checkpoints/{kind}-*.safetensors"))[-1])


def same(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Equal to the byte."""
    return one.numpy().tobytes() == two.numpy().tobytes()


def check_executions_and_workers_agree(folder: Path, method: Any, task: Task | None = None, rounds: int = 3) -> None:
    """A method trains alike in both executions, and leaves the same bytes with two workers."""
    number = 3 if task is None else task.federation.clients
    settings = {"selection": {"number": number}, "rounds": rounds, "eval_every": 1}
    whole, loop, spread = (
        final(folder / name, method, task, **how, **settings)
        for name, how in {
            "whole": {"execution": "vectorised"},
            "loop": {"execution": "loop"},
            "spread": {"execution": "vectorised", "workers": 2},
        }.items()
    )
    for name in whole.server:
        assert distance(whole.server[name].float(), loop.server[name].float()) < 1e-4
        assert same(whole.server[name], spread.server[name])
    for name in whole.client_states.rows:
        assert distance(whole.client_states.rows[name], loop.client_states.rows[name]) < 1e-4
        assert same(whole.client_states.rows[name], spread.client_states.rows[name])
    assert (folder / "whole" / "metrics.jsonl").read_bytes() == (folder / "spread" / "metrics.jsonl").read_bytes()
