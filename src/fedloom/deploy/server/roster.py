"""The sites of a deployment: which are admitted, which are connected, and how much data they announce.

A node is identified by its public key, which ``deploy init`` made for one site and the SuperLink verifies, so no site
can answer for another. The server greets each node that connects. The site answers with its versions, the digest of its
run and its numbers of samples; only then does it count as present.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.flower.polling import POLL
from fedloom.deploy.flower.server_transport import NodeInfo, ReceivedMessage, ServerTransport
from fedloom.deploy.protocol.printable import printable_line
from fedloom.deploy.protocol.relay_requests import INTRODUCTION
from fedloom.deploy.protocol.versions import Versions
from fedloom.deploy.protocol.wire import RejectedMessage, SiteAnswer, SiteRequest, pack, unpack
from fedloom.deploy.server.share_cap import SampleLimit, sample_limits
from fedloom.deploy.settings import ServerSettings

log = logging.getLogger("fedloom")
GREETING_ARRIVAL = 120.0
"""Seconds in which an answer to a greeting must have arrived completely."""
LARGEST = 1 << 20
"""Most bytes of an answer to a greeting."""


class Roster:
    """The sites of a deployment by client number; the evaluator comes after the training sites."""

    def __init__(
        self,
        transport: ServerTransport,
        settings: ServerSettings,
        keys: Mapping[bytes, int],
        run: str,
        digest: str,
    ) -> None:
        self.transport, self.settings, self.keys, self.run, self.digest = transport, settings, keys, run, digest
        self.names = settings.everyone
        self.digests = {digest}
        """Digests of blueprints that fit the run; more than one if sites were added."""
        self.sizes: dict[int, ClientSizes] = {}
        self.introductions: dict[int, Tensor] = {}
        """By what the sites of a run with encrypted chains know each other."""
        self.limits: dict[int, SampleLimit] = {}
        """The sites that count with fewer training samples than they announced."""
        self.remarks: list[tuple[int, str]] = []
        """Who changed what it announced, until an engine takes it into a round's record."""
        self.cut: dict[int, str] = {}
        """Whose claim is cut to its share, as it was said last."""
        self.refused: dict[int, str] = {}
        self.reason: Callable[[int], str] = lambda _: ""
        """Why a client's site cannot connect, if the server's folder says so; else empty."""
        self.on_join: Callable[[], None] = lambda: None
        """Called when a site has announced its sizes, or has changed them."""
        self.audit: Callable[..., None] = lambda *_, **__: None
        """Records which site was connected or refused, and what a site refused, as
        :func:`fedloom.deploy.audit_log.append` does."""
        self.refused_requests: set[tuple[int, str, str]] = set()
        """Which requests sites have refused, by client, kind and reason: each is recorded once."""
        self.last_sizes: dict[int, ClientSizes] = {}
        """The last announcement of each site, also of one that was refused since."""
        self.versions = Versions.here(str(torch.__version__))
        self.differences: dict[int, str] = {}
        """How the versions of sites differ from the server's, by client, as it was said last."""
        self.greeted: dict[int, float] = {}
        self.pending: dict[str, tuple[int, NodeInfo, str]] = {}

    @property
    def greeting_timeout(self) -> float:
        """Seconds after which a greeting expires; a site may be busy with a request until then."""
        return max(GREETING_ARRIVAL, self.settings.deadline)

    @property
    def evaluator(self) -> int | None:
        """The client number of the evaluator, if there is one and it has answered the greeting."""
        number = len(self.settings.sites)
        return number if number in self.sizes else None

    def nodes(self) -> dict[int, NodeInfo]:
        """The nodes that are connected now, by client number."""
        return {self.keys[n.key]: n for n in self.transport.nodes() if n.online and n.key in self.keys}

    def present(self) -> list[int]:
        """Greet new sites; the training sites that are connected and have answered their greeting."""
        nodes = self.greet()
        return [client for client in range(len(self.settings.sites)) if client in nodes and client in self.sizes]

    def wait_for_all(self, report: Callable[[str], None]) -> None:
        """Wait until all sites are present, at most ``join_timeout`` seconds; ``report`` gets the progress."""
        end, reported = time.monotonic() + self.settings.join_timeout, -1
        while True:
            self.greet()
            if len(self.sizes) != reported:
                reported = len(self.sizes)
                report(f"{reported} of {len(self.names)} sites are connected")
            known = all(one in self.sizes or one in self.refused or self.reason(one) for one in range(len(self.names)))
            if known or time.monotonic() > end:
                break
            time.sleep(POLL)
        for client, name in enumerate(self.names):
            if client not in self.sizes:
                log.warning("%s: %s", name, self.absence(client, "never connected"))

    def record_refusal(self, client: int, kind: str, reason: str) -> None:
        """Record that a site's policy refuses a request, if that is not recorded already.

        Args:
            kind: What was asked.
        """
        if (client, kind, reason) not in self.refused_requests:
            self.refused_requests.add((client, kind, reason))
            self.audit("request refused", site=self.names[client], request=kind, reason=reason)

    def absence(self, client: int, otherwise: str = "not connected") -> str:
        """Why a site does not take part."""
        return self.reason(client) or self.refused.get(client, otherwise)

    def wait_for(self, number: int) -> None:
        """Wait until this many training sites are present, at most ``join_timeout`` seconds."""
        end = time.monotonic() + self.settings.join_timeout
        while len(self.present()) < number and time.monotonic() < end:
            time.sleep(POLL)

    def greet(self) -> dict[int, NodeInfo]:
        """Greet the nodes that are new since the last time, and record the answers that have arrived."""
        nodes = self.nodes()
        for client, node in nodes.items():
            if self.greeted.get(client) != node.since:
                self.greeted[client] = node.since
                request = SiteRequest(run=self.run, ticket=secrets.token_hex(16), kind="hello", round=0)
                sent = self.transport.send({node.number: pack(request, {})}, self.greeting_timeout, "hello")
                self.pending |= dict.fromkeys(sent.values(), (client, node, request.ticket))
        for reply in self.transport.fetch(list(self.pending), GREETING_ARRIVAL):
            client, node, ticket = self.pending.pop(reply.reply_to)
            if reply.error and not reply.unreadable:  # it disconnected, or was busy all the time: greet it again
                self.greeted.pop(client, None)
                continue
            try:
                self._record_answer(client, node, ticket, reply)
            except RejectedMessage as why:
                self.refused[client] = str(why)
                self.sizes.pop(client, None)
                log.warning("%s may not take part: %s", self.names[client], why)
                self.audit("site refused", site=self.names[client], reason=str(why))
        return nodes

    def _record_answer(self, client: int, node: NodeInfo, ticket: str, reply: ReceivedMessage) -> None:
        if reply.unreadable:
            raise RejectedMessage(reply.unreadable)
        answer, tensors = unpack(reply.data, SiteAnswer, LARGEST)
        about = answer.about
        if (answer.run, answer.ticket, answer.client, reply.node) != (self.run, ticket, client, node.number):
            raise RejectedMessage("its answer does not belong to its greeting")
        if answer.error:
            raise RejectedMessage(printable_line(answer.error, 300))
        theirs = Versions.said(about.get("fedloom"), about.get("protocol"), about.get("torch"))
        if refusal := theirs.refusal(self.versions, "it"):
            raise RejectedMessage(refusal.rstrip("."))
        if about.get("digest") not in self.digests:
            raise RejectedMessage("its folder was made for another run: give it the one of this deployment")
        counts = (_count(about.get(part), part, self.settings.max_samples) for part in ClientSizes._fields)
        sizes = ClientSizes(*counts)
        if sizes.train < 1:
            raise RejectedMessage("it has no training sample")
        before = self.sizes.get(client, self.last_sizes.get(client))
        changed = self.sizes.get(client) != sizes
        if before is not None and before != sizes:
            self.remarks.append((client, f"announces {_sizes_text(sizes)} instead of {_sizes_text(before)}"))
        self.sizes[client] = self.last_sizes[client] = sizes
        if INTRODUCTION in tensors:
            self.introductions[client] = tensors[INTRODUCTION]
        self._count_claims()
        self.refused.pop(client, None)
        log.info("%s is connected: %s training samples", self.names[client], f"{sizes.train:,}")
        differs = theirs.difference(self.versions)
        facts = {"version": theirs.fedloom, **sizes._asdict()} | ({"differs": differs} if differs else {})
        self.audit("site connected", site=self.names[client], **facts)
        if differs and self.differences.get(client) != differs:
            log.warning("%s %s", self.names[client], differs)
        self.differences[client] = differs
        if changed:
            self.on_join()

    def _count_claims(self) -> None:
        settings = self.settings
        stated = {settings.sites.index(name): number for name, number in settings.sizes.items()}
        self.limits = sample_limits(self.sizes, len(settings.sites), settings.max_share, stated)

    def take_remarks(self) -> list[tuple[int, str]]:
        """Return, once, what must be said of sites' announcements: who changed them, and whose claim is cut."""
        cut = {
            client: f"announces {self.sizes[client].train:,} training samples; {limit.most:,} of them count "
            f"({limit.reason})"
            for client, limit in self.limits.items()
            if client in self.sizes
        }
        found = self.remarks + [(client, text) for client, text in cut.items() if self.cut.get(client) != text]
        self.remarks, self.cut = [], cut
        return found


def _sizes_text(sizes: ClientSizes) -> str:
    return f"{sizes.train:,} training, {sizes.valid:,} validation and {sizes.test:,} test samples"


def _count(value: object, part: str, most: int) -> int:
    if not isinstance(value, int) or not 0 <= value <= most:
        given = printable_line(str(value), 40)
        raise RejectedMessage(f"it announces {given} {part} samples; 0 to {most:,} are allowed (max_samples)")
    return value
