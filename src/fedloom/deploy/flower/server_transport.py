"""The server's way to its sites: messages to nodes and their answers, as bytes, over Flower's grid."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn

from fedloom.deploy.flower.local_socket import connection_errors
from fedloom.deploy.flower.polling import BACKOFF
from fedloom.deploy.flower.release import replace_attribute

log = logging.getLogger("fedloom")
PIECES = 8
"""Most parts of an answer as Flower stores it; ours have three."""
_RECORD = "fedloom"


@dataclass(frozen=True)
class NodeInfo:
    """A registered node: its public key, whether it is connected, since when, and when it was last heard of (seconds
    since 1970; 0 for never)."""

    number: int
    key: bytes
    online: bool
    since: float
    seen: float = 0.0


@dataclass(frozen=True)
class ReceivedMessage:
    """An answer: the id of the message it replies to, its sender, and its bytes or an error."""

    reply_to: str
    node: int
    data: bytes = b""
    error: str = ""
    unreadable: str = ""
    """Why it cannot be read as a message."""


class ServerTransport:
    """Sends messages to nodes and fetches their answers, for the server's half of a run."""

    limit = 1 << 30
    """Most bytes of an answer."""

    def __init__(self, grid: Any) -> None:
        self.grid = grid

    def nodes(self) -> list[NodeInfo]:
        """All registered nodes."""
        return node_infos(self.grid.get_nodes())

    def send(self, messages: Mapping[int, bytes], seconds: float, group: str) -> dict[int, str]:
        """Send each node its bytes; the messages' ids by node.

        Args:
            messages: Bytes by node number.
            seconds: The time after which a message expires.
            group: Flower's group id of the messages.
        """
        from flwr.app import Message

        sent: dict[int, str] = {}
        for node, data in messages.items():
            message = Message(to_record(data), node, "train", ttl=seconds, group_id=group)
            names = [name for name in self.grid.push_messages([message]) if name]
            sent |= dict.fromkeys([node], names[0]) if names else {}
        return sent

    def fetch(self, names: Collection[str], seconds: float) -> list[ReceivedMessage]:
        """The answers that have arrived to some messages.

        Each is fetched by itself, so that a broken one does not affect the others, and at most ``limit`` bytes of it.
        Parts of one that cannot be fetched do not stay in the SuperLink's memory.

        Args:
            names: Ids of the messages.
            seconds: How long to wait for an answer that is still arriving.
        """
        from flwr.supercore.inflatable import inflatable_utils
        from flwr.superlink.grid import http_grid

        refused, left = list[str](), list[str]()

        def refuse(piece: str, why: str) -> NoReturn:
            refused.append(why)
            raise inflatable_utils.ObjectPullError(piece, why)

        def pull_objects(object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
            room = [self.limit]
            left.append(object_ids[-1])  # the message itself comes after its parts

            def pull_bounded(piece: str) -> bytes:
                data = pull_object_fn(piece)
                room[0] -= len(data)
                return data if room[0] >= 0 else refuse(piece, f"the message has more than {self.limit:,} bytes")

            if len(object_ids) > PIECES:
                refuse(object_ids[0], f"the message has {len(object_ids):,} parts, and at most {PIECES} are allowed")
            found = inflatable_utils.pull_objects(object_ids, pull_bounded, max_time=seconds, **BACKOFF)
            left.clear()
            return found

        replace_attribute(http_grid, "pull_objects", pull_objects)
        replies: list[ReceivedMessage] = []
        for name in names:
            refused.clear()
            try:
                found = [_received_message(name, message) for message in self.grid.pull_messages([name])]
                replies += [replace(reply, unreadable=refused[0]) for reply in found] if refused else found
            except connection_errors():
                raise
            except Exception as why:  # Flower may raise anything on a malformed message
                log.warning("a message cannot be read (%s)", type(why).__name__)
                replies.append(ReceivedMessage(name, 0, unreadable="the message cannot be read"))
            while left:
                self._delete(left.pop())
        return replies

    def _delete(self, message: str) -> None:
        """Delete a message from the SuperLink's memory; Flower does so itself with one that it has fetched."""
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest

        request = ConfirmMessageReceivedRequest(
            node=self.grid.node, run_id=self.grid.run.run_id, message_object_id=message
        )
        self.grid._runtime_client.ConfirmMessageReceived(request)


def to_record(data: bytes) -> Any:
    """Bytes as a record that Flower passes on unchanged. (An array would have two more parts to store and fetch.)"""
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({_RECORD: ConfigRecord({_RECORD: data})})


def data_of(message: Any) -> bytes:
    """The bytes of a message; empty if it has none of ours."""
    try:
        data = message.content[_RECORD][_RECORD]
        return data if isinstance(data, bytes) else b""
    except (KeyError, TypeError, AttributeError):
        return b""


def _received_message(name: str, message: Any) -> ReceivedMessage:
    about = message.metadata
    if message.has_error():
        return ReceivedMessage(name, about.src_node_id, error=str(message.error.reason)[:300])
    return ReceivedMessage(name, about.src_node_id, data_of(message))


def node_infos(known: Iterable[Any]) -> list[NodeInfo]:
    """Flower's descriptions of nodes as ours."""
    return [
        NodeInfo(n.node_id, bytes(n.public_key), n.status == "online", _seconds(n.last_activated_at), _last_heard(n))
        for n in known
        if n.status != "unregistered"  # the SuperLink keeps listing those
    ]


def _last_heard(node: Any) -> float:
    """The time of a node's last heartbeat, from the time until which it counts as connected."""
    from flwr.common.constant import HEARTBEAT_PATIENCE

    if node.status != "online":
        return _seconds(node.last_deactivated_at)
    return float(node.online_until - HEARTBEAT_PATIENCE * node.heartbeat_interval)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() if moment else 0.0
