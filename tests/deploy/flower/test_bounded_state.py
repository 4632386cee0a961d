"""Flower's own store, state and handlers in this process: what stays in memory, and what a node can put there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: the contract with it is not checked")

from flwr.app import Message
from flwr.app.message import make_message, remove_content_from_message
from flwr.app.metadata import Metadata
from flwr.common.constant import NOOP_FLWR_AID, SUPERLINK_NODE_ID, SubStatus
from flwr.common.serde import message_to_proto
from flwr.proto import message_pb2
from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PushAppMessagesRequest
from flwr.server.superlink.linkstate import in_memory_linkstate, linkstate_factory
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID, TaskType
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_id, get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.servicer.fleet import fleet_handlers
from flwr.superlink.servicer.runtime import runtime_handlers

from fedloom.deploy.flower.bounded_state import link_state_class, only_own_answers
from fedloom.deploy.flower.release import replace_attribute
from fedloom.deploy.flower.server_transport import PIECES, to_record

SIZE, TTL = 10_000, 60.0
MOST = 3 * SIZE


class Link:
    """A SuperLink's state with one node and one run, its calls, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type[Any]) -> None:
        self.later = timedelta(0)
        monkeypatch.setattr(in_memory_linkstate, "now", lambda: now() + self.later)
        monkeypatch.setattr(linkstate_factory, "InMemoryLinkState", in_memory_linkstate.InMemoryLinkState)
        replace_attribute(linkstate_factory, "InMemoryLinkState", kind)
        factory = linkstate_factory.LinkStateFactory(
            FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory()
        )
        self.state: Any = factory.state()
        assert type(self.state) is kind
        self.store: Any = self.state.object_store
        self.node = Node(node_id=self.state.create_node(NOOP_FLWR_AID, "site", b"key", 1e6))
        self.state.activate_node(self.node.node_id, 1e6)
        self.start_run()

    def start_run(self) -> None:
        self.run = self.state.create_run(
            None, None, None, {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )
        self.task = self.state.run_ids[self.run].run.primary_task_id
        assert self.state.claim_task(self.task)
        assert self.state.activate_task(self.task)

    def message(self, data: bytes, answered: str = "") -> Message:
        ends = (SUPERLINK_NODE_ID, self.node.node_id)
        about = Metadata(self.run, "", *(ends[::-1] if answered else ends), answered, "1",
                         (now() + self.later).timestamp(), TTL, "train")  # fmt: skip
        message = make_message(metadata=about, content=to_record(data))
        message.metadata.__dict__["_message_id"] = message.object_id
        return message

    def ask(self, data: bytes) -> str:
        """The server's half sends a message."""
        message = self.message(data)
        bare, tree = message_to_proto(remove_content_from_message(message)), get_object_tree(message)
        request = PushAppMessagesRequest(messages_list=[bare], message_object_trees=[tree])
        answer = runtime_handlers.push_messages(request, self.state, self.state.task_store[self.task])
        for name, part in get_all_nested_objects(message).items():
            assert self.state.store_object(self.run, answer.session_id, name, part.deflate())
        return message.metadata.message_id

    def pull(self) -> list[str]:
        """The node looks for messages."""
        found = fleet_handlers.pull_messages(PullMessagesRequest(node=self.node), self.state, self.store)
        return [one.metadata.message_id for one in found.messages_list]

    def confirm(self, name: str) -> None:
        """The node has fetched all parts of a message."""
        request = message_pb2.ConfirmMessageReceivedRequest(node=self.node, run_id=self.run, message_object_id=name)
        fleet_handlers.confirm_message_received(request, self.state, self.store)

    def announce(self, message: Message, tree: Any = None) -> Any:
        """The node announces an answer."""
        request = PushMessagesRequest(
            node=self.node,
            messages_list=[message_to_proto(remove_content_from_message(message))],
            message_object_trees=[tree or get_object_tree(message)],
        )
        return fleet_handlers.push_messages(request, self.state)

    def push(self, session: str, content: bytes) -> bool:
        """The node sends a part; whether it is stored."""
        request = message_pb2.PushObjectRequest(node=self.node, run_id=self.run, session_id=session,
                                                object_id=get_object_id(content), object_content=content)  # fmt: skip
        return fleet_handlers.push_object(request, self.state).stored

    def answer(self, name: str, data: bytes) -> list[bool]:
        """The node sends an answer; which of its parts are stored."""
        message = self.message(data, answered=name)
        session = self.announce(message).session_id
        return [self.push(session, part.deflate()) for part in get_all_nested_objects(message).values()]

    def fetch(self, *names: str) -> list[str]:
        """The server's half fetches the answers to messages."""
        request = PullAppMessagesRequest(message_ids=names)
        found = runtime_handlers.pull_messages(request, self.state, self.state.task_store[self.task])
        return [one.metadata.message_id for one in found.messages_list if not one.HasField("error")]

    @property
    def size(self) -> int:
        """The bytes in the store."""
        return sum(len(entry.content) for entry in self.store.store.values())


def play(link: Link, number: int) -> None:
    """A round: an answer, a late one that nobody fetches, a message that is never pulled; and all time has passed."""
    first = link.ask(b"%d a" % number + bytes(SIZE))
    assert link.pull() == [first]
    link.confirm(first)
    assert all(link.answer(first, b"%d answer" % number + bytes(SIZE)))
    (found,) = link.fetch(first)
    link.confirm(found)
    late = link.ask(b"%d b" % number + bytes(SIZE))
    assert link.pull() == [late]
    link.confirm(late)
    assert all(link.answer(late, b"%d late" % number + bytes(SIZE)))
    link.ask(b"%d c" % number + bytes(SIZE))
    link.later += timedelta(seconds=2 * TTL)
    assert link.pull() == []
    assert link.announce(link.message(b"too late", answered=late)).objects_to_push == []


def test_flower_itself_keeps_parts_and_sessions_of_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why there is a state of our own; a release in which this fails may need none."""
    link = Link(monkeypatch, in_memory_linkstate.InMemoryLinkState)
    for number in range(5):
        play(link, number)
    assert link.size > 10 * SIZE
    assert len(link.state._object_push_sessions) == 5


def test_memory_does_not_grow_with_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link(monkeypatch, link_state_class(MOST))
    for number in range(5):
        play(link, number)
        assert len(link.store) == link.size == 0
        state = link.state
        assert [state._object_push_sessions, state._object_push_session_by_root, state.senders] == [{}, {}, {}]


@pytest.mark.parametrize("ends", ["by itself", "killed"])
def test_an_ended_run_leaves_nothing(monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    link = Link(monkeypatch, link_state_class(MOST))
    name = link.ask(bytes(SIZE))
    link.pull()
    assert all(link.answer(name, b"x" * SIZE))
    assert link.size > 2 * SIZE
    if ends == "killed":  # its process says nothing more, and Flower takes it for failed
        link.state.task_store[link.task].status.status = "finished"
        link.start_run()
    else:
        assert link.state.finish_task(link.task, SubStatus.COMPLETED, "")
    assert link.size == len(link.state.senders) == 0


def test_a_part_that_arrives_after_its_answer_was_handed_over_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's half gets an answer as soon as it is announced, and its parts as they come."""
    link = Link(monkeypatch, link_state_class(MOST))
    name = link.ask(bytes(SIZE))
    link.pull()
    message = link.message(b"slow" + bytes(SIZE), answered=name)
    session = link.announce(message).session_id
    assert link.fetch(name) == [message.metadata.message_id]
    assert all(link.push(session, part.deflate()) for part in get_all_nested_objects(message).values())
    assert link.state.waiting(link.node.node_id) > SIZE
    link.confirm(message.metadata.message_id)
    assert link.state.waiting(link.node.node_id) == link.size == 0


def tree_of(root: str, *parts: bytes) -> Any:
    children = [message_pb2.ObjectTree(object_id=get_object_id(part)) for part in parts]
    return message_pb2.ObjectTree(object_id=root, children=children)


def fill(link: Link, calls: int, as_itself: bool) -> int:
    """A hostile node announces one answer again and again, each time with other parts, and sends them; the bytes."""
    from flwr.app import ConfigRecord

    name = link.ask(b"question")
    link.pull()
    message = link.message(b"answer", answered=name)
    for number in range(calls):
        part = ConfigRecord({"x": number.to_bytes(4) + bytes(SIZE)}).deflate()
        root = message.metadata.message_id if as_itself else f"{number:064x}"
        session = link.announce(message, tree_of(root, part)).session_id
        link.push(session, part)
    return link.size


@pytest.mark.parametrize("as_itself", [True, False])
def test_announcing_an_answer_again_with_other_parts_fills_flowers_memory_and_not_ours(
    monkeypatch: pytest.MonkeyPatch, as_itself: bool
) -> None:
    assert fill(Link(monkeypatch, in_memory_linkstate.InMemoryLinkState), 20, as_itself) > 20 * SIZE
    bounded = Link(monkeypatch, link_state_class(MOST))
    assert fill(bounded, 20, as_itself) < 2 * SIZE
    assert len(bounded.state._object_push_sessions) <= 1


def test_an_answer_may_be_announced_again_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node does so when its session has ended."""
    link = Link(monkeypatch, link_state_class(MOST))
    name = link.ask(b"question")
    link.pull()
    message = link.message(bytes(SIZE), answered=name)
    parts = [part.deflate() for part in get_all_nested_objects(message).values()]
    first = link.announce(message).session_id
    assert link.push(first, parts[0])
    second = link.announce(message)
    assert len(second.objects_to_push) == len(parts) - 1
    assert [link.push(first, parts[1]), *(link.push(second.session_id, part) for part in parts[1:])] == [
        False, *[True] * (len(parts) - 1)
    ]  # fmt: skip
    assert link.fetch(name) == [message.metadata.message_id]


def test_an_answer_of_too_many_parts_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link(monkeypatch, link_state_class(MOST))
    name = link.ask(b"question")
    link.pull()
    message, before = link.message(b"answer", answered=name), len(link.store)
    parts = [b"%d" % number for number in range(PIECES)]
    assert link.announce(message, tree_of(message.metadata.message_id, *parts)).objects_to_push == []
    assert len(link.store) == before
    assert link.announce(message, tree_of(message.metadata.message_id, *parts[1:])).objects_to_push


def test_a_node_has_at_most_so_many_bytes_waiting_and_room_again_when_they_are_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = Link(monkeypatch, link_state_class(MOST))
    names = [link.ask(b"%d" % number) for number in range(5)]
    for name in names:
        assert link.pull() == [name]
        link.confirm(name)
    sent = [all(link.answer(name, name.encode() + bytes(SIZE - 500))) for name in names]
    assert sent == [True, True, True, False, False]
    assert link.size <= MOST
    (found,) = link.fetch(names[0])
    link.confirm(found)
    again = link.ask(b"again")
    assert link.pull() == [again]
    link.confirm(again)
    assert all(link.answer(again, bytes(SIZE - 500)))


@pytest.mark.parametrize("as_server", [True, False])
def test_a_node_cannot_send_what_another_takes_for_a_request_or_an_answer_in_its_name(
    monkeypatch: pytest.MonkeyPatch, as_server: bool
) -> None:
    link = Link(monkeypatch, link_state_class(MOST))
    other = Node(node_id=link.state.create_node(NOOP_FLWR_AID, "hostile", b"its key", 1e6))
    link.state.activate_node(other.node_id, 1e6)
    asked = link.ask(b"question")
    forged = link.message(b"forged", answered="" if as_server else asked)
    request = PushMessagesRequest(
        node=other,
        messages_list=[message_to_proto(remove_content_from_message(forged))],
        message_object_trees=[get_object_tree(forged)],
    )
    fleet_handlers.push_messages(request, link.state)  # Flower takes it
    if as_server:
        assert len(link.state.message_ins_store) == 2
    before = link.size
    with pytest.raises(ValueError, match="answers of its own"):
        only_own_answers(fleet_handlers.push_messages)(request=request, state=link.state)
    assert link.size == before


def test_a_nodes_own_answer_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link(monkeypatch, link_state_class(MOST))
    name = link.ask(b"question")
    link.pull()
    monkeypatch.setattr(fleet_handlers, "push_messages", only_own_answers(fleet_handlers.push_messages))
    monkeypatch.setattr(link, "announce", lambda message: fleet_handlers.push_messages(
        request=PushMessagesRequest(
            node=link.node,
            messages_list=[message_to_proto(remove_content_from_message(message))],
            message_object_trees=[get_object_tree(message)],
        ), state=link.state))  # fmt: skip
    assert all(link.answer(name, b"answer"))
    assert len(link.fetch(name)) == 1


def test_parts_and_messages_at_once_do_not_wait_for_each_other_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part takes the locks in the order in which a message does: the second lock is free while it waits."""
    link = Link(monkeypatch, link_state_class(MOST))
    with ThreadPoolExecutor(1) as pool:
        with link.state.lock:
            waiting = pool.submit(link.state.store_object, link.run, "no session", "x", b"")
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.2)
            assert link.state._lock_object_push_sessions.acquire(timeout=30)
            link.state._lock_object_push_sessions.release()
        assert waiting.result(timeout=30) is False
