"""An answer whose transfer breaks off half way is sent again, and what cannot be sent is said."""

from __future__ import annotations

import inspect
import logging

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: the contract with it is not checked")

from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

from fedloom.deploy.flower import push_retry
from fedloom.deploy.flower.push_retry import ATTEMPTS, NoLongerAsked, RenewedSession, push_with_retries


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_retry, "PAUSE", 0.0)


class Link:
    """A SuperLink whose sessions end after some parts."""

    def __init__(self, parts_per_session: int) -> None:
        self.room, self.sessions = parts_per_session, 0
        self.left = 0
        self.stored: dict[str, bytes] = {}

    def send(self, message: str, tree: str, seconds: float) -> tuple[set[str], str]:
        assert (message, tree, seconds) == ("message", "tree", 1.5)
        self.sessions, self.left = self.sessions + 1, self.room
        return {"a", "b", "c"} - set(self.stored), str(self.sessions)

    def push_object(self, run: int, session: str, name: str, content: bytes) -> None:
        if session != str(self.sessions) or self.left == 0:
            raise ObjectPushError(name, run, session)
        self.left -= 1
        self.stored[name] = content


def test_an_answer_whose_session_ends_half_way_arrives_whole() -> None:
    link = Link(parts_per_session=1)
    session = RenewedSession(link.send, link.push_object)
    missing, name = session.send("message", "tree", 1.5)
    for part in sorted(missing):
        session.push_object(7, name, part, part.encode())
    assert link.stored == {"a": b"a", "b": b"b", "c": b"c"}
    assert link.sessions == 3


def test_what_cannot_be_sent_is_said_after_a_few_attempts(caplog: pytest.LogCaptureFixture) -> None:
    link = Link(parts_per_session=0)
    session = RenewedSession(link.send, link.push_object)
    session.send("message", "tree", 1.5)
    with caplog.at_level(logging.WARNING, "fedloom"), pytest.raises(ObjectPushError):
        session.push_object(7, "1", "a", b"a")
    assert link.sessions == 1 + ATTEMPTS
    assert f"could not be sent in {ATTEMPTS} attempts" in caplog.records[-1].message
    assert len(caplog.records) == ATTEMPTS


def test_an_answer_that_expires_on_its_way_is_announced_once_more_and_then_given_up() -> None:
    link = Link(parts_per_session=1)
    session = RenewedSession(link.send, link.push_object)
    _, name = session.send("message", "tree", 1.5)
    session.push_object(7, name, "a", b"a")
    link.stored |= {"b": b"", "c": b""}  # the SuperLink asks for no part of what it has forgotten
    for part in ("b", "c"):
        with pytest.raises(NoLongerAsked):
            session.push_object(7, name, part, part.encode())
    assert link.sessions == 2


def test_an_answer_of_which_nothing_is_wanted_is_said(caplog: pytest.LogCaptureFixture) -> None:
    link = Link(parts_per_session=1)
    link.stored = dict.fromkeys("abc", b"")
    with caplog.at_level(logging.WARNING, "fedloom"):
        assert RenewedSession(link.send, link.push_object).send("message", "tree", 1.5)[0] == set()
    assert "takes no part of this answer" in caplog.text


def test_other_errors_are_not_retried() -> None:
    calls: list[int] = []

    def push() -> None:
        calls.append(1)
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        push_with_retries(push)
    assert len(calls) == 1


def test_the_supernode_calls_what_we_replace_by_these_names() -> None:
    from flwr.supernode import start_client_internal

    parameters = set(inspect.signature(start_client_internal._push_messages).parameters)
    assert parameters == {"state", "object_store", "send", "push_object"}
    source = inspect.getsource(start_client_internal)
    assert "push_object_fn=partial(push_object, run_id, session_id)" in source
    assert "session_id = send(message, object_tree, clientapp_runtime)" in source
