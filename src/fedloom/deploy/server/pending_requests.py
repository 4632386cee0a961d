"""Requests that were sent to sites and are not answered yet.

Waiting ends when all sites have answered or the deadline has passed. A site that restarts during its work gets its
request again; it starts from the same state, so it computes the same. While other sites work it has until the
deadline to return, and after that ``reconnect_timeout`` seconds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fedloom.deploy.flower.polling import POLL, PollDelay
from fedloom.deploy.flower.server_transport import ReceivedMessage, ServerTransport
from fedloom.deploy.protocol.message_validation import ExpectedAnswer
from fedloom.deploy.protocol.printable import printable_line
from fedloom.deploy.protocol.wire import SiteRequest
from fedloom.deploy.server.roster import Roster
from fedloom.deploy.settings import ServerSettings

log = logging.getLogger("fedloom")
CONNECTION_CHECK = 1.0
"""Seconds between two checks of who is connected, while answers are missing."""
FINAL_FETCH = 2.0
"""Seconds to wait for an answer that is arriving at the deadline."""
GONE = "gone "
"""Prefix of the key of a message that was lost with its site."""
DEADLINES_TO_LIVE = 2
"""A message expires after this many deadlines; until then a late answer is still reported."""
RESENDS = 2
"""How often a site that restarts gets the same message again."""


@dataclass(frozen=True)
class SentRequest:
    """A request that was sent: to whom, what it asks, and what its answer must be like."""

    client: int
    node: int
    request: SiteRequest
    data: bytes
    expected: ExpectedAnswer
    sent_at: float
    attempts: int = 1
    gone_since: float | None = None
    """When its site was found to be disconnected."""
    gone_reason: str = "lost its connection"
    sent_again: bool = False
    """Whether a later message asks the same. This one may still be answered, if only the connection was cut."""


class PendingRequests:
    """Sends requests, and waits for their answers.

    ``exclude`` gets each client whose answer does not come: its number, the kind of its request, and the reason.
    """

    def __init__(
        self,
        transport: ServerTransport,
        roster: Roster,
        settings: ServerSettings,
        exclude: Callable[[int, str, str], None],
    ) -> None:
        self.transport, self.roster, self.settings, self.exclude = transport, roster, settings, exclude
        self.waiting: dict[str, SentRequest] = {}
        """Requests whose answer is missing, by the id of their message."""
        self.overdue: dict[str, SentRequest] = {}
        """Requests that were given up, by the id of their message; a late answer is reported."""
        self.idle_since: float | None = None
        """Since when every site whose answer is missing has been disconnected; None while one of them works."""
        self.wire = {"messages": 0, "bytes_down": 0, "bytes_up": 0}

    def send(self, sent: SentRequest) -> None:
        """Send a request to its node."""
        seconds, group = DEADLINES_TO_LIVE * self.settings.deadline, str(sent.request.round)
        ids = self.transport.send({sent.node: sent.data}, seconds, group)
        if sent.node not in ids:
            self.exclude(sent.client, sent.request.kind, "the message could not be sent")
            return
        self.waiting[ids[sent.node]] = sent
        self.wire["messages"] += 1
        self.wire["bytes_down"] += len(sent.data)

    def collect(self) -> Iterator[tuple[SentRequest, ReceivedMessage]]:
        """Yield answers as they arrive, each with its request, until none is missing or the deadline has passed."""
        self.idle_since = None
        delay, end = PollDelay(POLL / 2), time.monotonic() + self.settings.deadline
        next_check = time.monotonic() + CONNECTION_CHECK
        while self.waiting and time.monotonic() < end:
            yield from self._fetch([*self.waiting, *self.overdue], max(FINAL_FETCH, end - time.monotonic()))
            if time.monotonic() > next_check:
                self._check_connections()
                next_check = time.monotonic() + CONNECTION_CHECK
            if self.waiting:
                delay.sleep()
        yield from self._fetch([*self.waiting], FINAL_FETCH)  # arrived behind a slow one
        while self.waiting:
            name, sent = next(iter(self.waiting.items()))
            late = f"no answer within {self.settings.deadline:g} s"
            self._give_up(name, late if sent.gone_since is None else sent.gone_reason)

    def settle(self, ticket: str) -> None:
        """Wait no longer for other answers to a request that is answered."""
        for other in [name for name, one in self.waiting.items() if one.request.ticket == ticket]:
            del self.waiting[other]  # the same request, sent again

    def _fetch(self, names: list[str], seconds: float) -> Iterator[tuple[SentRequest, ReceivedMessage]]:
        for reply in self.transport.fetch([name for name in names if not name.startswith(GONE)], seconds):
            if reply.reply_to in self.overdue:
                self._report_late(self.overdue.pop(reply.reply_to), reply)
                continue
            sent = self.waiting.pop(reply.reply_to, None)
            if sent is None:
                log.warning("dropped an answer to an unknown request")
                continue
            self.wire["bytes_up"] += len(reply.data)
            if reply.unreadable or not reply.error:
                yield sent, reply
            elif not sent.sent_again:  # from Flower: the site disconnected during its work, and may return
                why = f"lost its connection ({printable_line(reply.error, 300)})"
                gone = replace(sent, gone_since=time.monotonic(), gone_reason=why)
                self.waiting[f"{GONE}{sent.request.ticket}"] = gone

    def _report_late(self, late: SentRequest, reply: ReceivedMessage) -> None:
        if not reply.error:  # with one, the message has expired, and nobody will answer it
            self.exclude(late.client, late.request.kind, f"answer to round {late.request.round} came too late")

    def _check_connections(self) -> None:
        """Send again to sites that have restarted, and give up sites that do not return."""
        nodes, now = self.roster.nodes(), time.monotonic()
        at_work = any(sent.client in nodes and sent.gone_since is None for sent in self.waiting.values())
        self.idle_since = None if at_work else self.idle_since or now
        for name, sent in list(self.waiting.items()):
            node = nodes.get(sent.client)
            if sent.sent_again or name not in self.waiting:
                continue
            if node is None and (known := self.roster.reason(sent.client)):
                self._give_up(name, known)
                continue
            if node is not None and node.since > sent.sent_at:
                self._send_again(name, sent, node.number)
            elif node is None and sent.gone_since is None:
                self.waiting[name] = replace(sent, gone_since=now)
            elif sent.gone_since is not None and self._has_waited_enough(sent.gone_since, now):
                self._give_up(name, sent.gone_reason)

    def _send_again(self, name: str, sent: SentRequest, node: int) -> None:
        """Send a request to a site that has restarted since it got it."""
        if sent.attempts > RESENDS:
            self._give_up(name, f"restarted {sent.attempts} times")
            return
        self.waiting[name] = replace(sent, sent_again=True)
        if name.startswith(GONE):
            del self.waiting[name]
        log.warning("%s restarted: its request is sent again", self.roster.names[sent.client])
        self.send(replace(sent, node=node, sent_at=time.time(), attempts=sent.attempts + 1, gone_since=None))

    def _has_waited_enough(self, gone_since: float, now: float) -> bool:
        """Whether all others have answered, and a disconnected site has had its time to return since then."""
        if self.idle_since is None:
            return False
        return now - max(gone_since, self.idle_since) > self.settings.reconnect_timeout

    def _give_up(self, name: str, why: str) -> None:
        """Stop waiting for the answer to a request; a late answer will be reported."""
        ticket = self.waiting[name].request.ticket
        for one in [one for one, sent in self.waiting.items() if sent.request.ticket == ticket]:
            sent = self.waiting.pop(one)
            if not one.startswith(GONE):
                self.overdue[one] = replace(sent, data=b"")
        self.exclude(sent.client, sent.request.kind, why)
