"""Messages to nodes and their answers over Flower's grid."""

from __future__ import annotations

import inspect
from contextlib import suppress
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: the contract with it is not checked")

from fedloom.deploy.flower import server_transport as transport


@pytest.fixture
def at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are made inside a run."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.mark.usefixtures("at_work")
def test_flower_passes_our_bytes_on_as_they_are() -> None:
    from flwr.app import Message

    data = bytes(range(256)) * 3
    message = Message(transport.to_record(data), 7, "train", ttl=60.0, group_id="1")
    assert transport.data_of(message) == data
    answer = Message(transport.to_record(b"answer"), reply_to=message)
    assert transport._received_message("name", answer) == transport.ReceivedMessage(
        "name", answer.metadata.src_node_id, b"answer"
    )


class Grid:
    """Flower's grid, as far as we use it: every message is what ``pulled`` gives, or raises."""

    def __init__(self, **pulled: object) -> None:
        self.pulled = pulled

    def pull_messages(self, names: list[str]) -> list[object]:
        found = self.pulled[names[0]]
        if isinstance(found, Exception):
            raise found
        return [found]


@pytest.mark.usefixtures("at_work")
def test_a_message_that_flower_cannot_read_spoils_no_other() -> None:
    from flwr.app import Message
    from google.protobuf.message import DecodeError

    good = Message(transport.to_record(b"good"), 7, "train")
    replies = transport.ServerTransport(Grid(bad=DecodeError("garbage"), good=good)).fetch(["bad", "good"], 1.0)
    assert [(reply.reply_to, reply.data, reply.unreadable) for reply in replies] == [
        ("bad", b"", "the message cannot be read"),
        ("good", b"good", ""),
    ]


def test_a_message_of_too_many_pieces_or_bytes_is_not_fetched_to_its_end() -> None:
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
    from flwr.superlink.grid import http_grid

    server = transport.ServerTransport(Grid())
    server.limit = 10
    server.fetch([], 1.0)
    asked: list[str] = []

    def piece(name: str) -> bytes:
        asked.append(name)
        return b"1234"

    with pytest.raises(ObjectPullError, match="9 parts, and at most 8 are allowed"):
        http_grid.pull_objects(object_ids=[str(number) for number in range(transport.PIECES + 1)], pull_object_fn=piece)
    assert not asked
    assert "pull_objects(\n                        object_ids=[" in inspect.getsource(
        http_grid
    )  # it is called by these names
    assert "pull_object_fn=" in inspect.getsource(http_grid)
    with pytest.raises(ObjectPullError, match="more than 10 bytes"):
        http_grid.pull_objects(["a", "b", "c"], piece)
    assert http_grid.pull_objects(["a", "b"], piece) == {"a": b"1234", "b": b"1234"}


def test_the_parts_of_an_answer_that_cannot_be_fetched_do_not_stay_in_the_superlink() -> None:
    """Flower deletes those of an answer that it has fetched; one that is too large, or half here, would stay."""
    from flwr.proto.node_pb2 import Node
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectUnavailableError
    from flwr.superlink.grid import http_grid

    sizes = {"large": 99, "small": 1, "half": 0}
    deleted: list[str] = []

    class Pulling(Grid):
        node, run = Node(node_id=1), SimpleNamespace(run_id=1)
        _runtime_client = SimpleNamespace(ConfirmMessageReceived=lambda r: deleted.append(r.message_object_id))

        def pull_messages(self, names: list[str]) -> list[object]:
            def pull(part: str) -> bytes:
                if not sizes[names[0]]:
                    raise ObjectUnavailableError(part)
                return bytes(sizes[names[0]])

            with suppress(ObjectPullError):  # as HttpGrid does
                http_grid.pull_objects(object_ids=["part", f"{names[0]}'s answer"], pull_object_fn=pull)
            return []

    server = transport.ServerTransport(Pulling())
    server.limit = 10
    server.fetch(list(sizes), 0.0)
    assert deleted == ["large's answer", "half's answer"]
    assert all(hasattr(http_grid.HttpGrid, name) for name in ("run", "_runtime_client"))
    assert "self.node = Node(" in inspect.getsource(http_grid.HttpGrid)


@pytest.mark.usefixtures("at_work")
def test_a_message_without_our_bytes_is_empty() -> None:
    from flwr.app import ConfigRecord, Message, RecordDict

    for content in (RecordDict(), RecordDict({transport._RECORD: ConfigRecord({transport._RECORD: "x"})})):
        assert transport.data_of(Message(content, 7, "train")) == b""
