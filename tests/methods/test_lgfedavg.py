"""LG-FedAvg: bodies that stay with their clients."""

from __future__ import annotations

from fedloom.core.task import Task
from support.checkpoints import final, same
from support.synthetic import federation, mlp


def test_one_client_alone_has_nothing_to_decouple(tmp_path):
    """All of the model is trained: with one client this is local training."""
    task = Task("t", federation([40]), mlp())
    local = final(tmp_path / "local", "local", task).client_states.rows["row"][0]
    state = final(tmp_path / "run", "lgfedavg", task)
    row = task.layout.put(state.server["row"], "body", state.client_states.rows["body"][0])
    assert same(row, local)
