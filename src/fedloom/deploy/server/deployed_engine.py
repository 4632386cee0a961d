"""The engine of a deployed run: every job of one client is a message to its site, and its result the checked answer.

An exchange ends when everyone has answered or the deadline has passed. Who is not connected, does not answer in time,
says that it failed, or sends what does not fit, is left out with a reason, and the round goes on without it. A site
that restarts while its work is under way gets the message again: it builds on the same state, so the work is the same.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from fedloom.core.message import Message
from fedloom.deploy.flower import POLL, Letter, Patience, Post
from fedloom.deploy.protocol.forms import Forms, agreed, form_of
from fedloom.deploy.protocol.validation import MOVED, Expected, check
from fedloom.deploy.protocol.wire import Answer, Kind, Refused, Request, pack, shown, unpack
from fedloom.deploy.server.roster import Roster
from fedloom.deploy.server.tickets import Tickets
from fedloom.deploy.settings import ServerSettings
from fedloom.rounds.jobs import ClientRuntime, Job, Tensors

log = logging.getLogger("fedloom")
LOOK = 1.0
"""Seconds between two looks at who is connected, while answers are awaited."""
LAST = 2.0
"""Seconds for which an answer that is coming in at the deadline is waited for."""
GRACE = 15.0
"""Seconds for which a site that went away may come back and get its work again."""
GONE = "gone "
"""Stands before the name of a message that died with its site."""
HEADERS = 1 << 16
"""Bytes that Flower adds to a message, at most."""
LAPSE = 2
"""A message lapses after so many deadlines; until then a late answer is still told of."""
RESENDS = 2
"""How often a site that restarts gets the same message again in one exchange."""


@dataclass(frozen=True)
class Sent:
    """A message on its way: to whom, what it asks, and what its answer must be like."""

    client: int
    node: int
    request: Request
    data: bytes
    expected: Expected
    at: float
    times: int = 1
    gone: float | None = None
    """Since when its site is known to be away."""
    why: str = "lost its connection"
    sent_again: bool = False
    """Whether a later message asks the same; this one may still be answered, if only the connection was cut."""


class DeployedEngine:
    """Sites, reached through Flower. ``shop`` is the hollow task's: for jobs of the server's own, and to find out what
    answers look like."""

    def __init__(
        self, post: Post, roster: Roster, tickets: Tickets, settings: ServerSettings, runtime: ClientRuntime
    ) -> None:
        self.post, self.roster, self.tickets, self.settings, self.runtime = post, roster, tickets, settings, runtime
        post.limit = int(settings.max_megabytes * 1e6) + HEADERS
        self.name, self.limit, self.forms = roster.run, int(settings.max_megabytes * 1e6), Forms(runtime)
        self.round = 0
        self.excluded: list[dict[str, Any]] = []
        self.overdue: dict[str, Sent] = {}
        self.wire = {"messages": 0, "bytes_down": 0, "bytes_up": 0}

    # -- the engine

    def begin(self, round_number: int) -> None:
        """A round begins, or begins again: enough sites are waited for, and kept states go back to the last finished
        round."""
        self.roster.wait(self.settings.min_clients)
        self.round = round_number
        self.tickets.begin(round_number)

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, Tensor]) -> Sequence[Tensors | None]:
        """Send each job to its client's site; None for a job that nobody did."""
        if jobs[0].kind == "global":
            return self._global(jobs, message)
        requests: dict[int, tuple[Request, dict[str, Tensor]]] = {}
        alone = {job.ids[0]: job for job in jobs}
        for client, job in alone.items():
            own = message.for_clients(_place(job))
            tensors = {f"shared/{name}": t for name, t in own.shared.items()}
            tensors |= {f"each/{name}": t for name, t in own.each.items()}
            requests[client] = self._request(client, job.kind, job.round, job.turn, job.measure), tensors
        form = self.forms.of(jobs[0], message)
        named = dict(message.shared) | dict(message.each)
        received = next((named[name] for name in MOVED if name in named), None)
        places = {client: job.places[0] for client, job in alone.items()}
        rows = {client: _row(received, places[client]) for client in alone}
        results = self.exchange(requests, form, rows)
        return [results.get(job.ids[0]) for job in jobs]

    def left_out(self) -> list[dict[str, Any]]:
        """Whose answers did not count since the last time, and why."""
        found, self.excluded = self.excluded, []
        return found

    def close(self) -> None:
        """The sites stay; they belong to others."""

    # -- one exchange

    def exchange(
        self,
        requests: Mapping[int, tuple[Request, dict[str, Tensor]]],
        form: Any = None,
        received: Mapping[int, Tensor | None] | None = None,
    ) -> dict[int, Tensors]:
        """Send each client its request and wait; the checked results of those whose answers are taken."""
        waiting = self._sent(requests, form, received or {})
        results: dict[int, Tensors] = {}
        end, look, patience = time.monotonic() + self.settings.deadline, time.monotonic() + LOOK, Patience(POLL / 2)
        while waiting and time.monotonic() < end:
            for letter in self.post.fetch(_letters(waiting, self.overdue), max(LAST, end - time.monotonic())):
                self._received(letter, waiting, results)
            if time.monotonic() > look:
                self._missed(waiting)
                look = time.monotonic() + LOOK
            if waiting:
                patience.sleep()
        for letter in self.post.fetch(_letters(waiting), LAST):  # they may have come while another was coming in slowly
            self._received(letter, waiting, results)
        while waiting:
            name, sent = next(iter(waiting.items()))
            late = f"no answer within {self.settings.deadline:g} s"
            self._give_up(name, waiting, late if sent.gone is None else sent.why)
        if form is None:
            self._agree(requests, results)
        return {client: results[client] for client in sorted(results)}

    def _agree(self, requests: Mapping[int, tuple[Request, Any]], results: dict[int, Tensors]) -> None:
        """Where the server does not know what answers look like, those count that look like most of them."""
        usual = agreed([form_of(result) for result in results.values()])
        for client in [client for client, result in results.items() if form_of(result) != usual]:
            del results[client]
            self._leave_out(client, requests[client][0].kind, "its answer does not look like most of the others'")

    def _request(self, client: int, kind: str, round_number: int, turn: int = 0, measure: bool = False) -> Request:
        return Request(
            run=self.name,
            ticket=secrets.token_hex(16),
            kind=cast(Kind, kind),
            round=round_number,
            turn=turn,
            measure=measure,
            base=self.tickets.base.get(client, ""),
            state=self.tickets.state.get(client, ""),
        )

    def send(
        self, clients: Sequence[int], kind: Kind, tensors: Mapping[int, Mapping[str, Tensor]]
    ) -> dict[int, Tensors]:
        """Ask some clients something outside a round's jobs."""
        return self.exchange({c: (self._request(c, kind, self.round), dict(tensors[c])) for c in clients})

    def _sent(
        self,
        requests: Mapping[int, tuple[Request, dict[str, Tensor]]],
        form: Any,
        received: Mapping[int, Tensor | None],
    ) -> dict[str, Sent]:
        nodes = self.roster.nodes()
        waiting: dict[str, Sent] = {}
        for client, (request, tensors) in requests.items():
            node, sizes = nodes.get(client), self.roster.sizes.get(client)
            if node is None or sizes is None:
                self._leave_out(client, request.kind, self.roster.refused.get(client, "not connected"))
                continue
            row = received.get(client)
            expected = Expected(self.name, request.ticket, client, request.round, sizes.train, form, row)
            self._post(Sent(client, node.number, request, pack(request, tensors), expected, time.time()), waiting)
        return waiting

    def _post(self, sent: Sent, waiting: dict[str, Sent]) -> None:
        names = self.post.send({sent.node: sent.data}, LAPSE * self.settings.deadline, str(sent.request.round))
        if sent.node not in names:
            self._leave_out(sent.client, sent.request.kind, "the message could not be sent")
            return
        waiting[names[sent.node]] = sent
        self.wire["messages"] += 1
        self.wire["bytes_down"] += len(sent.data)

    def _received(self, letter: Letter, waiting: dict[str, Sent], results: dict[int, Tensors]) -> None:
        if letter.answers in self.overdue:
            late = self.overdue.pop(letter.answers)
            if letter.error:  # the message has lapsed, and nobody will answer it
                return
            self._leave_out(late.client, late.request.kind, f"answer to round {late.request.round} came too late")
            return
        sent = waiting.pop(letter.answers, None)
        if sent is None:
            log.warning("an answer to nothing that was asked is dropped")
            return
        self.wire["bytes_up"] += len(letter.data)
        try:
            if letter.spoilt:
                raise Refused(letter.spoilt)
            if letter.error and sent.sent_again:
                return
            if letter.error:  # Flower's own word: it went away with its work, and may come back
                why = f"lost its connection ({shown(letter.error, 300)})"
                waiting[f"{GONE}{sent.request.ticket}"] = replace(sent, gone=time.monotonic(), why=why)
                return
            if letter.node != sent.node:
                raise Refused("another site answered in its name")
            answer, tensors = unpack(letter.data, Answer, self.limit)
            if answer.lost and answer.ticket == sent.request.ticket:
                self.tickets.forget(sent.client)
            check(answer, tensors, sent.expected, self.settings)
        except Refused as why:
            self._leave_out(sent.client, sent.request.kind, str(why))
            return
        for other in [name for name, one in waiting.items() if one.request.ticket == sent.request.ticket]:
            del waiting[other]  # the same request, sent again
        results[sent.client] = tensors
        if sent.request.kind == "update":
            self.tickets.take(sent.client, sent.request.ticket if answer.keeps else "")

    def _missed(self, waiting: dict[str, Sent]) -> None:
        """Send once more to sites that have restarted, and stop waiting for sites that are gone."""
        nodes, now = self.roster.nodes(), time.monotonic()
        for name, sent in list(waiting.items()):
            node = nodes.get(sent.client)
            if sent.sent_again or name not in waiting:
                continue
            if node is not None and node.since > sent.at:
                if sent.times > RESENDS:
                    self._give_up(name, waiting, f"restarted {sent.times} times")
                    continue
                waiting[name] = replace(sent, sent_again=True)
                if name.startswith(GONE):
                    del waiting[name]
                log.warning("%s restarted: its work is asked for again", self.roster.names[sent.client])
                again = replace(sent, node=node.number, at=time.time(), times=sent.times + 1, gone=None)
                self._post(again, waiting)
            elif (node is None or sent.gone is not None) and now - (sent.gone or now) > GRACE:
                self._give_up(name, waiting, sent.why)
            elif node is None and sent.gone is None:
                waiting[name] = replace(sent, gone=now)

    def _give_up(self, name: str, waiting: dict[str, Sent], why: str) -> None:
        """Wait no longer for a request's answer; one that comes late will be told of."""
        ticket = waiting[name].request.ticket
        for one in [one for one, sent in waiting.items() if sent.request.ticket == ticket]:
            sent = waiting.pop(one)
            if not one.startswith(GONE):
                self.overdue[one] = replace(sent, data=b"")
        self._leave_out(sent.client, sent.request.kind, why)

    def _leave_out(self, client: int, kind: str, reason: str) -> None:
        name = self.roster.names[client]
        log.warning("round %s: %s is left out of '%s': %s", self.round, name, kind, reason)
        self.excluded.append({"client": client, "name": name, "what": kind, "reason": reason})

    def _global(self, jobs: list[Job], message: Message) -> list[Tensors | None]:
        """The shared row on the global test set: the evaluator's, asked once for all of it, or the server's own."""
        if self.settings.evaluator is None:
            return [self.runtime.do(job, message, {}) for job in jobs]
        evaluator = self.roster.evaluator
        if evaluator is None:
            self._leave_out(len(self.settings.sites), "global", "not connected")
            return [None] * len(jobs)
        whole = torch.tensor([jobs[0].ids[0], jobs[-1].ids[1]])
        request = self._request(evaluator, "global", jobs[0].round)
        form = self.forms.of(jobs[0], message)
        asked = self.exchange({evaluator: (request, {"shared/row": message["row"], "slice": whole})}, form)
        found = asked.get(evaluator)
        if found is not None and ("counts" not in found or not float(found["counts"]) > 0):
            self._leave_out(evaluator, "global", "counts is a number that cannot be")
            found = None
        nothing = None if found is None else {name: torch.zeros_like(t) for name, t in found.items()}
        return [found, *[nothing] * (len(jobs) - 1)]


def _letters(*books: Mapping[str, Sent]) -> list[str]:
    """The names of letters that an answer may come to."""
    return [name for book in books for name in book if not name.startswith(GONE)]


def _place(job: Job) -> Tensor:
    return torch.tensor(job.places)


def _row(received: Tensor | None, place: int) -> Tensor | None:
    return received if received is None or received.dim() == 1 else received[place]
