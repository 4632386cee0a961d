"""A site's way to the server: its process takes messages from its SuperNode, over a Unix socket, and answers them."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedloom.deploy.flower.local_socket import HOST, NODE_SOCKET, client_class
from fedloom.deploy.flower.polling import ARRIVING, BACKOFF, POLL, PollDelay
from fedloom.deploy.flower.push_retry import NoLongerAsked, push_with_retries
from fedloom.deploy.flower.release import replace_attribute
from fedloom.deploy.flower.server_clock import request_time
from fedloom.deploy.flower.server_transport import data_of, to_record

log = logging.getLogger("fedloom")


class SiteTransport:
    """Takes the messages for a site one by one from its SuperNode's runtime API, and answers them."""

    def __init__(self, folder: Path) -> None:
        from flwr.supercore.runtime import RuntimeHttpClient

        class AnsweringClient(RuntimeHttpClient):
            def PushMessages(self, request: Any) -> Any:  # noqa: N802
                """Announce an answer; the SuperNode does not take one whose request it has forgotten."""
                response = super().PushMessages(request)
                if not all(response.message_ids):
                    raise NoLongerAsked("nobody waits for this answer any more: it is discarded")
                return response

        self.kind = client_class(AnsweringClient, folder.resolve() / NODE_SOCKET)
        self.client = self._client("SuperExec")

    def _client(self, name: str, *more: Any) -> Any:
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        passes = [RuntimeVersionHttpInterceptor(component_name=name), *more]
        return self.kind.from_server_address(HOST, True, None, passes)

    def serve(self, answer: Callable[[bytes], bytes], ready: Callable[[], None] = lambda: None) -> None:
        """Answer messages until the process ends; wait for the SuperNode whenever it is unreachable.

        Args:
            answer: Makes the answer to a message.
            ready: Called after each successful poll.
        """
        import httpx
        from flwr.proto.runtime_pb2 import AcquireTaskRequest
        from flwr.supercore.constant import TaskType
        from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectPushError

        delay = PollDelay(POLL / 2, 2 * POLL)  # the SuperNode is on this machine
        while True:
            try:
                task = self.client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
                ready()
                if task.token:
                    self._work(task.token, answer)
                    delay.reset()
                    continue
            except (
                httpx.HTTPError,
                ObjectPullError,
                ObjectPushError,
                RuntimeError,
            ):  # unreachable, part of a message of an ended run, or an answer that could not be sent
                time.sleep(POLL)
            delay.sleep()

    def _work(self, token: str, answer: Callable[[bytes], bytes]) -> None:
        from flwr.app import Message
        from flwr.app.message import message as flower_message
        from flwr.common.constant import SubStatus
        from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
        from flwr.supercore.inflatable import inflatable_utils
        from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
        from flwr.supernode.runtime import run_clientapp as flower

        inflate = inflatable_utils.pull_and_inflate_object_from_tree
        inflate_in_time = functools.partial(inflate, max_time=ARRIVING, **BACKOFF)
        replace_attribute(flower, "pull_and_inflate_object_from_tree", inflate_in_time)
        client = self._client("flwr-clientapp", RuntimeTokenHttpInterceptor(token))
        alive = HeartbeatSender(make_task_heartbeat_fn_http(client))
        alive.start()
        try:
            message, context, _, _ = flower.pull_task_input(client)
            replace_attribute(flower_message, "now", lambda: request_time(message))
            reply = to_record(answer(data_of(message)))
            try:
                push_with_retries(lambda: flower.push_message(client, Message(reply, reply_to=message), context))
            except NoLongerAsked as why:
                log.warning("%s", why)
            flower.push_task_output(client, context, SubStatus.COMPLETED, "")
        finally:
            alive.stop()
            client.close()
