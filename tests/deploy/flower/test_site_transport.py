"""A site takes messages from its SuperNode and answers them."""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: the contract with it is not checked")


def parameters(function: object) -> set[str]:
    return set(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_a_message_is_taken_from_a_supernode_and_answered_with_these_functions() -> None:
    from flwr.supernode.runtime import run_clientapp

    assert parameters(run_clientapp.pull_task_input) == {"client"}
    assert parameters(run_clientapp.push_message) == {"client", "message", "context"}
    assert parameters(run_clientapp.push_task_output) == {"client", "context", "sub_status", "details"}
