"""A SuperNode takes answers only to what is still asked."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: the contract with it is not checked")

from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.task_identity import TaskIdentity

from fedloom.deploy.flower.node_state import node_state_class
from fedloom.deploy.flower.server_transport import to_record


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def state() -> Any:
    return node_state_class()(InMemoryObjectStore())


def message(*given: Any, **named: Any) -> Message:
    one = Message(*given, **named)
    one.metadata.__dict__["_message_id"] = one.object_id
    return one


def hand_over(state: Any, answer: Message) -> tuple[bool, list[str]]:
    stored: tuple[bool, list[str]] = state.store_message_and_object_tree(
        answer, get_object_tree(answer), state.start_session(answer.metadata.run_id)
    )
    return stored


def test_an_answer_to_a_forgotten_request_is_not_stored_and_does_not_stand_before_the_next_one(state: Any) -> None:
    first, second = message(to_record(b"first"), 7, "train"), message(to_record(b"second"), 7, "train")
    late, true = (message(to_record(b"answer"), reply_to=one) for one in (first, second))
    state.store_message(first)
    assert hand_over(state, late)[0]
    # the server does not want it: the SuperNode forgets both, as it does after sending
    state.delete_messages(message_ids=[late.metadata.message_id, first.metadata.message_id])
    state.object_store.delete(late.metadata.message_id)
    assert hand_over(state, late) == (False, [])
    assert not [one for one in state._object_push_sessions.values() if not one.root_object_ids]  # no session stays
    state.store_message(second)
    stored, parts = hand_over(state, true)
    assert stored
    assert parts
    assert [one.metadata.message_id for one in state.get_messages_legacy(is_reply=True)] == [true.metadata.message_id]


def test_flower_makes_the_state_where_we_replace_it() -> None:
    from flwr.supernode.nodestate import nodestate_factory
    from flwr.supernode.servicer.runtime import runtime_handlers

    assert "InMemoryNodeState(object_store)" in inspect.getsource(nodestate_factory.NodeStateFactory)
    assert 'message_ids=[message.metadata.message_id if stored else ""]' in inspect.getsource(runtime_handlers)
