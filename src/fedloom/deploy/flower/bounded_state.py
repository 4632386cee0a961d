"""The SuperLink's memory, which does not grow with the rounds, and of which no site gets more than its share.

Flower forgets a message that expires or is answered, and keeps its parts, which are the models, until somebody asks for
a run that has ended. And it stores whatever a node announces: the same answer again and again, each time with other
parts. Here parts go with their message. An answer has a few parts, which stay those that it was announced with, and the
answers of a node that wait for the server's half of a run have a largest size, all together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from fedloom.deploy.flower.server_transport import PIECES

log = logging.getLogger("fedloom")


def only_own_answers(push_messages: Callable[..., Any]) -> Callable[..., Any]:
    """Flower's handler of what nodes send, for answers in a node's own name only.

    Flower stores what a node sends in anybody's name: another node would take it for a request of the server.

    Args:
        push_messages: Flower's handler.
    """

    def push_own_answers(request: Any, state: Any) -> Any:
        for message in request.messages_list:
            about = message.metadata
            if not about.reply_to_message_id or about.src_node_id != request.node.node_id:
                log.warning("node %s sent a message that is not one of its answers: refused", request.node.node_id)
                raise ValueError("a node sends answers of its own only")
        return push_messages(request=request, state=state)

    return push_own_answers


def link_state_class(most: int) -> type[Any]:
    """Flower's state of a SuperLink in memory, bounded.

    Args:
        most: The most bytes of one node's answers that wait to be fetched.
    """
    from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
    from flwr.supercore.object_store import NoObjectInStoreError

    class BoundedLinkState(InMemoryLinkState):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.senders: dict[str, int] = {}
            """Which node sent an answer whose parts are stored, by the id of the answer."""

        def store_message_and_object_tree(
            self, message: Any, object_tree: Any, session_id: str
        ) -> tuple[bool, list[str]]:
            """Store a message and announce its parts; an answer has few, and those that it had before."""
            about = message.metadata
            if not about.reply_to_message_id:  # of the server
                return super().store_message_and_object_tree(message, object_tree, session_id)
            with self.lock:
                stored, missing = False, list[str]()
                if self._is_answer(about.message_id, object_tree):
                    stored, missing = super().store_message_and_object_tree(message, object_tree, session_id)
                if stored:
                    self.senders[about.message_id] = about.src_node_id
                if not missing:
                    self._cleanup_push_session(session_id, cleanup_messages=False)
                return stored, missing

        def _is_answer(self, message_id: str, tree: Any) -> bool:
            parts = [part.object_id for part in iterate_object_tree(tree)]
            if tree.object_id != message_id or len(parts) > PIECES:
                return False
            return self._parts(message_id) in ([], parts)

        def store_object(self, run_id: int, session_id: str, object_id: str, object_content: bytes) -> bool:
            """Store a part of a message, unless its node has too many bytes here."""
            # The order in which everything else takes both locks: a session that expires here takes the first one.
            with self.lock, self._lock_object_push_sessions:
                session = self._object_push_sessions.get(session_id)
                if session is None:
                    return False
                for node in {self.senders[root] for root in session.root_object_ids if root in self.senders}:
                    if self.waiting(node) + len(object_content) > most:
                        log.warning("node %s has too many bytes waiting here: a part of its answer is refused", node)
                        return False
                return super().store_object(run_id, session_id, object_id, object_content)

        def waiting(self, node: int) -> int:
            """The bytes of a node's answers that wait to be fetched."""
            parts = {
                part for root, sender in list(self.senders.items()) if sender == node for part in self._parts(root)
            }
            return sum(len(self.object_store.get(part) or b"") for part in parts)

        def _parts(self, root: str) -> list[str]:
            """The parts of a message, as far as they are known; an answer that was fetched is forgotten."""
            try:
                return [part.object_id for part in iterate_object_tree(self.object_store.get_object_tree(root))]
            except NoObjectInStoreError:
                self.senders.pop(root, None)
                return []

        def _check_stored_messages(self, message_ids: set[str], run_id: int | None = None) -> None:
            """Delete messages that have expired, with the answers that nobody has fetched."""
            with self.lock:
                answers = {name: self.message_ins_id_to_message_res_id.get(name, "") for name in message_ids}
                super()._check_stored_messages(message_ids, run_id)
                for name, answer in answers.items():
                    if answer and name not in self.message_ins_store:
                        self._forget(answer)

        def delete_messages(self, message_ins_ids: set[str]) -> None:
            """Delete messages of the server, with their parts; parts of their answers are about to be fetched."""
            super().delete_messages(message_ins_ids)
            for name in message_ins_ids:
                self._forget(name)

        def _forget(self, root: str) -> None:
            self.object_store.delete(root)
            self.senders.pop(root, None)
            session = self._object_push_session_by_root.get(root)
            if session is not None:
                self._cleanup_push_session(session, cleanup_messages=False)

        def create_run(self, *given: Any, **named: Any) -> int:
            """Create a run; those that have ended leave nothing behind."""
            self._clean_up_ended_runs()
            return super().create_run(*given, **named)

        def finish_task(self, task_id: int, sub_status: str, details: str) -> bool:
            """End a task, and clean up if it was a run's."""
            found = super().finish_task(task_id, sub_status, details)
            self._clean_up_ended_runs()
            return found

        def _clean_up_ended_runs(self) -> None:
            with self.lock_task_store, self.lock:
                for run in [run for run in self.run_ids if self._is_finished_run(run)]:
                    self.cleanup_run(run)
            for root in list(self.senders):
                self._parts(root)

    return BoundedLinkState
