"""A site takes messages from its SuperNode and answers them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: the contract with it is not checked")

from fedloom.deploy.flower import push_retry
from fedloom.deploy.flower.server_transport import data_of, to_record
from fedloom.deploy.flower.site_transport import SiteTransport


def parameters(function: object) -> set[str]:
    return set(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_a_message_is_taken_from_a_supernode_and_answered_with_these_functions() -> None:
    from flwr.supernode.runtime import run_clientapp

    assert parameters(run_clientapp.pull_task_input) == {"client"}
    assert parameters(run_clientapp.push_message) == {"client", "message", "context"}
    assert parameters(run_clientapp.push_task_output) == {"client", "context", "sub_status", "details"}


def test_a_push_that_fails_ends_neither_the_site_nor_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower's client raises ObjectPushError when a session ended half way; the same answer is pushed once more."""
    from types import SimpleNamespace

    from flwr.app import Message
    from flwr.supercore import heartbeat
    from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.supernode.runtime import run_clientapp

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    pushed: list[bytes] = []
    worked: list[bytes] = []

    def push(_: object, message: object, __: object) -> None:
        pushed.append(data_of(message))
        if len(pushed) == 1:
            raise ObjectPushError("part", 1, "session")

    def answer(data: bytes) -> bytes:
        worked.append(data)
        return b"answer"

    silent = SimpleNamespace(start=lambda: None, stop=lambda: None)
    monkeypatch.setattr(heartbeat, "HeartbeatSender", lambda _: silent)
    monkeypatch.setattr(push_retry, "PAUSE", 0.0)
    request = Message(to_record(b"request"), 7, "train")
    monkeypatch.setattr(run_clientapp, "pull_task_input", lambda _: (request, None, None, None))
    monkeypatch.setattr(run_clientapp, "push_message", push)
    monkeypatch.setattr(run_clientapp, "push_task_output", lambda *_: None)
    SiteTransport(tmp_path)._work("token", answer)
    assert worked == [b"request"]
    assert pushed == [b"answer", b"answer"]


def test_an_answer_that_the_supernode_does_not_take_any_more_is_discarded_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from types import SimpleNamespace

    from flwr.app import Message
    from flwr.proto.runtime_pb2 import PushAppMessagesResponse
    from flwr.supercore import heartbeat
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.supernode.runtime import run_clientapp

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    announced, ended = list[object](), list[str]()

    def push_messages(_: object, request: object) -> object:
        announced.append(request)
        return PushAppMessagesResponse(message_ids=[""])

    silent = SimpleNamespace(start=lambda: None, stop=lambda: None)
    monkeypatch.setattr(heartbeat, "HeartbeatSender", lambda _: silent)
    monkeypatch.setattr(RuntimeHttpClient, "PushMessages", push_messages)
    request = Message(to_record(b"request"), 7, "train")
    request.metadata.__dict__["_message_id"] = "0" * 64
    context = SimpleNamespace(node_id=1, run_id=1)
    monkeypatch.setattr(run_clientapp, "pull_task_input", lambda _: (request, context, None, None))
    monkeypatch.setattr(run_clientapp, "push_task_output", lambda *given: ended.append(given[2]))
    SiteTransport(tmp_path)._work("token", lambda _: b"answer")
    assert len(announced) == len(ended) == 1
    assert "nobody waits for this answer" in caplog.text
