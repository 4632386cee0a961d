"""Who is there: the sites that were let in, which of them are connected, and how much data they say they have.

A node is known by its public key, which ``deploy init`` made for one site and the SuperLink checks, so no site can
answer for another. Each one that connects is greeted once: it tells its versions, the run it was made for and its
numbers of samples, and only then does it count as present.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping

import fedloom
from fedloom.deploy.flower import POLL, Letter, Node, Post
from fedloom.deploy.protocol.blueprint import Sizes
from fedloom.deploy.protocol.wire import Answer, Refused, Request, pack, shown, unpack
from fedloom.deploy.settings import ServerSettings

log = logging.getLogger("fedloom")
GREETING = 120.0
"""Seconds that an answer to a greeting may take to come in."""
LARGEST = 1 << 20
"""Bytes of an answer to a greeting, at most."""


class Roster:
    """The sites of a deployment, by client number; the evaluator's is behind the training sites'."""

    def __init__(self, post: Post, settings: ServerSettings, keys: Mapping[bytes, int], run: str, digest: str) -> None:
        self.post, self.settings, self.keys, self.run, self.digest = post, settings, keys, run, digest
        self.names = settings.everyone
        self.sizes: dict[int, Sizes] = {}
        self.refused: dict[int, str] = {}
        self.joined: Callable[[], None] = lambda: None
        """Called when a site has told its sizes."""
        self.greeted: dict[int, float] = {}
        self.asked: dict[str, tuple[int, Node, str]] = {}

    @property
    def patience(self) -> float:
        """Seconds after which a greeting lapses: a site may be in the middle of work that it was asked for."""
        return max(GREETING, self.settings.deadline)

    @property
    def evaluator(self) -> int | None:
        """The evaluator's number, if there is one and it has been greeted."""
        number = len(self.settings.sites)
        return number if number in self.sizes else None

    def nodes(self) -> dict[int, Node]:
        """The nodes that are connected now, by client."""
        return {self.keys[n.key]: n for n in self.post.nodes() if n.online and n.key in self.keys}

    def present(self) -> list[int]:
        """The training sites that are connected and have been greeted; newcomers are greeted on the way."""
        nodes = self.greet()
        return [client for client in range(len(self.settings.sites)) if client in nodes and client in self.sizes]

    def gather(self, tell: Callable[[str], None]) -> None:
        """Wait until all sites are there, or the time to join is over."""
        end, told = time.monotonic() + self.settings.join_timeout, -1
        while time.monotonic() < end:
            self.greet()
            if len(self.sizes) != told:
                told = len(self.sizes)
                tell(f"{told} of {len(self.names)} sites are connected")
            if len(self.sizes) + len(self.refused) == len(self.names):
                break
            time.sleep(POLL)
        for client, name in enumerate(self.names):
            if client not in self.sizes:
                log.warning("%s: %s", name, self.refused.get(client, "never connected"))

    def wait(self, number: int) -> None:
        """Wait until some training sites are there, or the time to join is over."""
        end = time.monotonic() + self.settings.join_timeout
        while len(self.present()) < number and time.monotonic() < end:
            time.sleep(POLL)

    def greet(self) -> dict[int, Node]:
        """Greet whoever is new since the last time, and note the answers that have come in."""
        nodes = self.nodes()
        for client, node in nodes.items():
            if self.greeted.get(client) != node.since:
                self.greeted[client] = node.since
                request = Request(run=self.run, ticket=secrets.token_hex(16), kind="hello", round=0)
                for name in self.post.send({node.number: pack(request, {})}, self.patience, "hello").values():
                    self.asked[name] = client, node, request.ticket
        for letter in self.post.fetch(list(self.asked), GREETING):
            client, node, ticket = self.asked.pop(letter.answers)
            if letter.error and not letter.spoilt:  # it went away, or was at work all the while: it is greeted again
                self.greeted.pop(client, None)
                continue
            try:
                self._noted(client, node, ticket, letter)
            except Refused as why:
                self.refused[client] = str(why)
                self.sizes.pop(client, None)
                log.warning("%s may not take part: %s", self.names[client], why)
        return nodes

    def _noted(self, client: int, node: Node, ticket: str, letter: Letter) -> None:
        if letter.spoilt:
            raise Refused(letter.spoilt)
        answer, _ = unpack(letter.data, Answer, LARGEST)
        about = answer.about
        if (answer.run, answer.ticket, answer.client, letter.node) != (self.run, ticket, client, node.number):
            raise Refused("its answer to the greeting is not its own")
        if answer.error:
            raise Refused(shown(answer.error, 300))
        if about.get("fedloom") != fedloom.__version__:
            theirs = shown(str(about.get("fedloom")), 40)
            raise Refused(f"it runs fedloom {theirs}, and the server {fedloom.__version__}")
        if about.get("digest") != self.digest:
            raise Refused("its folder was made for another run: give it the one of this deployment")
        sizes = Sizes(*(_count(about.get(part), part, self.settings.max_samples) for part in Sizes._fields))
        if sizes.train < 1:
            raise Refused("it has no training sample")
        new = self.sizes.get(client) != sizes
        self.sizes[client] = sizes
        self.refused.pop(client, None)
        log.info("%s is here: %s training samples", self.names[client], f"{sizes.train:,}")
        if new:
            self.joined()


def _count(value: object, part: str, most: int) -> int:
    if not isinstance(value, int) or not 0 <= value <= most:
        said = shown(str(value), 40)
        raise Refused(f"it says it has {said} {part} samples, which cannot be (max_samples = {most:,})")
    return value
