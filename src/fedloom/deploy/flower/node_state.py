"""A SuperNode's memory, which takes answers only to what is still asked.

A SuperNode works on one message at a time: it fetches a request, waits for an answer, whichever it is, and sends that.
If the server has given the request up, the SuperNode forgets it while the site is still handing over the parts of its
answer; the site takes that for a transfer that broke off and hands it over again. Flower stores it: the SuperNode would
send it as the answer to the next request, and every later answer would wait behind the one before, until a restart.
"""

from __future__ import annotations

from typing import Any


def node_state_class() -> type[Any]:
    """Flower's state of a SuperNode, which refuses answers to requests that it does not have any more."""
    from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

    class UnansweredNodeState(InMemoryNodeState):
        def store_message_and_object_tree(
            self, message: Any, object_tree: Any, session_id: str
        ) -> tuple[bool, list[str]]:
            """Store an answer and announce its parts, if its request is here and waits for it."""
            # the order of both locks is Flower's
            with self._lock_object_push_sessions, self.lock_msg_store:
                if message.metadata.reply_to_message_id not in self.msg_store:
                    self._cleanup_push_session(session_id, cleanup_messages=False)
                    return False, []
                return super().store_message_and_object_tree(message, object_tree, session_id)

    return UnansweredNodeState
