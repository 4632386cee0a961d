"""Checks that SCAFFOLD and FedDyn share: on least squares, where every fixed point can be computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedloom.core.objective import SquaredError
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.rounds.run_state import RunState
from support.checkpoints import final
from support.synthetic import distance, federation

LOCAL = {"steps": 4, "batch_size": 0, "lr": 0.2}
POINTS = [8, 20, 12, 40]
BOTH_WAYS = pytest.mark.parametrize(("by", "execution"), [("samples", "loop"), ("uniform", "vectorised")])


def least_squares_task() -> Task:
    """Clients with unequal numbers of points, unequal curvatures and unequal optima of a linear model."""
    generator = torch.Generator().manual_seed(2)
    parts = torch.arange(sum(POINTS)).split(POINTS)
    x, y = torch.randn(sum(POINTS), 3, generator=generator), torch.zeros(sum(POINTS), 1)
    for client, part in enumerate(parts):
        x[part] *= torch.tensor([0.7, 1.0, 1.3]).roll(client)
        y[part] = x[part] @ torch.randn(3, 1, generator=generator) * (1 + client)
    own, model = Ragged.of(parts), nn.Linear(3, 1, bias=False)
    nn.init.zeros_(model.weight)
    return Task("squares", Federation({"x": x, "y": y}, own, own, Ragged.empty(4), 1), model, SquaredError())


def task_with_running_statistics() -> Task:
    """Clients whose model has a BatchNorm layer."""
    model = nn.Sequential(nn.Linear(20, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5))
    return Task("t", federation([32, 48, 16]), model)


def hessians_and_optima(task: Task, ids: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Each client's Hessian and optimum."""
    found = []
    for client in ids:
        part = task.federation.train[client]
        x, y = task.inputs(part).double(), task.targets(part).double()
        found.append((x.T @ x / len(part), torch.linalg.lstsq(x, y).solution.flatten()))
    return found


def balance(pulls: list[Tensor], task: Task, by: str, ids: list[int]) -> Tensor:
    """Where weighted pulls towards the clients' optima cancel."""
    raw = torch.tensor([float(POINTS[k]) if by == "samples" else 1.0 for k in ids]).double()
    optima, shares = [c for _, c in hessians_and_optima(task, ids)], raw / raw.sum()
    total = sum(p * pull for p, pull in zip(shares, pulls, strict=True))
    return torch.linalg.solve(total, sum(p * pull @ c for p, pull, c in zip(shares, pulls, optima, strict=True)))


def optimum(task: Task, by: str, ids: list[int]) -> Tensor:
    """Where the weighted mean of the clients' losses is least: they pull with their gradients."""
    return balance([hessian for hessian, _ in hessians_and_optima(task, ids)], task, by, ids)


def fedavg_fixed_point(task: Task, by: str) -> Tensor:
    """Where FedAvg stops: s gradient steps pull with I - (I - lr H)^s."""
    ids, one = [0, 1, 2, 3], torch.eye(3).double()
    left = [torch.linalg.matrix_power(one - LOCAL["lr"] * h, LOCAL["steps"]) for h, _ in hessians_and_optima(task, ids)]
    return balance([one - some for some in left], task, by, ids)


def mean_of_kept_rows(state: RunState, name: str, by: str, sizes: list[int]) -> Tensor:
    """The mean of what clients keep, weighted as the run weighs them."""
    raw = torch.tensor([float(size) if by == "samples" else 1.0 for size in sizes])
    return raw / raw.sum() @ state.client_states.rows[name]


def check_reaches_the_optimum(folder: Path, method: Any, by: str, execution: str) -> None:
    """With all clients in every round."""
    task = least_squares_task()
    state = final(folder, method, task, rounds=40, local=LOCAL, weight_by=by, execution=execution)
    assert distance(optimum(task, by, [0, 1, 2, 3]), state.server["row"].double()) < 1e-4


def check_reaches_the_optimum_with_half_of_the_clients(folder: Path, method: Any) -> None:
    """With two of four clients in every round."""
    task = least_squares_task()
    half = {"selection": {"number": 2}, "weight_by": "uniform", "rounds": 120}
    state = final(folder, method, task, local=LOCAL, **half)
    assert distance(optimum(task, "uniform", [0, 1, 2, 3]), state.server["row"].double()) < 1e-3


def check_held_out_clients_do_not_pull(folder: Path, method: Any, kept: str) -> None:
    """The run ends at the optimum of the clients that may take part; ``kept`` is what clients keep."""
    task = least_squares_task()
    state = final(folder, method, task, rounds=40, local=LOCAL, new_clients=1)
    ids = state.client_states.has[kept].nonzero().flatten().tolist()
    assert len(ids) == 3
    assert distance(optimum(task, "samples", ids), state.server["row"].double()) < 1e-4


def check_statistics_are_not_corrected(folder: Path, method: Any, kept: str, correction: str) -> None:
    """Running statistics have no place in what clients keep and in the server's correction."""
    task = task_with_running_statistics()
    state = final(folder, method, task, rounds=2)
    rows, trained = state.client_states.rows[kept], task.layout.trained_columns
    assert not rows[:, ~trained].any()
    assert not state.server[correction][~trained].any()
    assert rows[:, trained].any()
