"""The engine of a deployed run: each job of one client is a message to its site, and its result the checked answer.

A site that is not connected, does not answer in time (``pending_requests.py``), reports an error or sends an invalid
answer is excluded with a reason, and the round continues without it.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from fedloom.channel.model_differences import DifferenceMessage
from fedloom.core.declarations import Scalar, Statistic
from fedloom.core.errors import FedloomError
from fedloom.core.kept_rows import KeptRows
from fedloom.core.message import Message
from fedloom.core.model.sub_models import SubModelDraw
from fedloom.deploy.flower.server_transport import ReceivedMessage, ServerTransport
from fedloom.deploy.participant_folder import CLAIM
from fedloom.deploy.protocol.message_validation import ExpectedAnswer, check_answer, is_silent
from fedloom.deploy.protocol.reply_forms import ReplyForms, majority_form, reply_form
from fedloom.deploy.protocol.score_validation import ScoreBounds, unusual_losses
from fedloom.deploy.protocol.wire import (
    REFUSED,
    NotFinite,
    RejectedMessage,
    RequestKind,
    SiteAnswer,
    SiteRequest,
    pack,
    unpack,
)
from fedloom.deploy.server.pending_requests import PendingRequests, SentRequest
from fedloom.deploy.server.relays import SiteRequests, introduce_neighbours
from fedloom.deploy.server.roster import Roster
from fedloom.deploy.server.site_sums import sum_over_sites
from fedloom.deploy.server.tickets import Tickets
from fedloom.deploy.settings import ServerSettings
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.jobs import Job, Tensors
from fedloom.secure.sum_step import ServerKeys, SumSession, SumStep
from fedloom.secure.sums import LOST, SUM, Summed

log = logging.getLogger("fedloom")
HEADERS = 1 << 16
"""Most bytes that Flower adds to a message."""
MEASURED = ("update", "ask", "score", "global", "confusion")
"""Requests whose answers may hold measurements of the task's score."""


class DeployedEngine:
    """Sites, reached through Flower.

    ``runtime`` is that of the server's task without data: it does the server's own jobs, and predicts the form of
    answers.
    """

    def __init__(
        self,
        transport: ServerTransport,
        roster: Roster,
        tickets: Tickets,
        settings: ServerSettings,
        runtime: ClientRuntime,
        sum_keys: ServerKeys | None = None,
    ) -> None:
        self.transport, self.roster, self.tickets, self.settings = transport, roster, tickets, settings
        self.runtime, self.forms, self.sum_keys = runtime, ReplyForms(runtime), sum_keys
        self.score_bounds = ScoreBounds.of(runtime.scoring.task)
        self.sample_counts = tuple(
            name for name, one in runtime.algorithm.sends.items() if isinstance(one, Statistic | Scalar) and one.counts
        )
        self.name, self.limit = roster.run, int(settings.max_megabytes * 1e6)
        transport.limit = self.limit + HEADERS
        self.round = 0
        self.excluded: list[dict[str, Any]] = []
        self.remarks: list[dict[str, Any]] = []
        self.exhausted: set[int] = set()
        self.broken: set[int] = set()
        self.approval: Tensors = {}
        """What goes with every request where a new run needs an approver: a site may hear of the run late."""
        self.pending = PendingRequests(transport, roster, settings, self._exclude)
        self.accepted: dict[int, str] = {}
        """The tickets of the accepted answers of an exchange, by client; empty if the client keeps no state."""
        self.states_before: dict[int, str] = {}
        """The tickets of the states before the last exchange, by client."""

    # -- the engine's interface

    def begin(self, round_number: int) -> None:
        """Begin a round, or repeat it: wait for enough sites, and return to the client states of the last finished
        round."""
        self.roster.wait_for(self.settings.min_clients)
        self.round = round_number
        self.exhausted.clear()
        self.broken.clear()
        self.tickets.begin(round_number)
        if round_number:  # the round before the first may have no record
            for client, text in self.roster.take_remarks():
                self.remark(client, self.roster.names[client], CLAIM, text)

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows]) -> Sequence[Tensors | None]:
        """Send each job to its client's site; None for a job without a valid answer."""
        if jobs[0].kind == "global":
            return self._evaluate_globally(jobs, message)
        requests = self._job_requests(jobs, message)
        if jobs[0].kind == "update" and self.runtime.hides_models:
            return self._hand_on(jobs, requests, message)
        # What is sent may be a difference or a corner of the model. Forms and norms of replies are those of the model
        # that the site makes of it and trains.
        whole = message.view if isinstance(message, DifferenceMessage) else message
        form = self.forms.of(jobs[0], whole)
        received = self.runtime.down_channel.decode(whole, _draw(self.runtime.setting.seed, jobs))
        got = {job.ids[0]: received.for_clients(_place(job)) for job in jobs}
        results = self.exchange(requests, form, got if jobs[0].kind == "update" else {})
        return [results.get(job.ids[0]) for job in jobs]

    def _hand_on(self, jobs: list[Job], requests: SiteRequests, message: Message) -> Sequence[Tensors | None]:
        """Pass sealed models on, each with the keys of its site's neighbours: what is read is what chains end with."""
        given, missing = introduce_neighbours(jobs, requests, self.runtime, self.roster)
        for client, reason in missing.items():
            self._exclude(client, "update", reason)
        results = self.exchange(given, self.forms.of(jobs[0], message))
        return [results.get(job.ids[0]) for job in jobs]

    def sum(
        self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows], step: SumStep, session: SumSession
    ) -> Summed:
        """Let the sites train and add up what they learnt; no single row of theirs arrives here."""
        if self.sum_keys is None:
            raise FedloomError("this server has no keys for sums: make the deployment again.")
        session = replace(session, run=self.name)  # sites agree on it: nothing of another run of the same plan fits
        form = self.forms.of(jobs[0], message)
        hidden = None if form is None else {**form, f"reply/{SUM}": step.hidden_form(*form[f"reply/{SUM}"])}
        (hidden or {}).pop(f"reply/{LOST}", None)  # a site without a row says so instead
        updates = self._job_requests(jobs, message)
        turns = {job.ids[0]: (job.round, job.turn) for job in jobs}
        return sum_over_sites(
            jobs,
            updates,
            lambda client: self._request(client, "sum", *turns[client]),
            lambda requests, trains: self.exchange(requests, hidden if trains else None, alike=trains),
            step,
            session,
            self.sum_keys,
        )

    def exclude(self, client: int, name: str, what: str, reason: str) -> None:
        """Note that an accepted answer does not count after all: the site's next request builds on its state before."""
        self.tickets.take(client, self.states_before.get(client, ""))
        self._exclude(client, what, reason)

    def take_exclusions(self) -> list[dict[str, Any]]:
        """Return and clear the list of excluded answers, with reasons."""
        found, self.excluded = self.excluded, []
        return found

    def remark(self, client: int, name: str, what: str, reason: str) -> None:
        """Note what must be said of a site whose answer counts."""
        log.warning("round %s: %s (%s): %s", self.round, name, what, reason)
        self.remarks.append({"client": client, "name": name, "what": what, "reason": reason})

    def take_remarks(self) -> list[dict[str, Any]]:
        """Return and clear the list of remarks."""
        found, self.remarks = self.remarks, []
        return found

    def close(self) -> None:
        """Do nothing: the sites run on."""

    def _job_requests(self, jobs: list[Job], message: Message) -> SiteRequests:
        """The request for each job of one client, and its tensors."""
        requests = {}
        for job in jobs:
            client, own = job.ids[0], message.for_clients(_place(job))
            tensors = {f"shared/{name}": t for name, t in own.shared.items()}
            tensors |= {f"each/{name}": t for name, t in own.each.items()}
            requests[client] = self._request(client, job.kind, job.round, job.turn, job.measure), tensors
        return requests

    # -- one exchange

    def exchange(
        self,
        requests: Mapping[int, tuple[SiteRequest, dict[str, Tensor]]],
        form: Any = None,
        received: Mapping[int, Message] | None = None,
        alike: bool = True,
    ) -> dict[int, Tensors]:
        """Send each client its request and wait for the answers.

        Args:
            requests: Request and tensors, by client.
            form: The form that answers must have; None if it is unknown.
            received: The message that each client was sent, if the answers are replies to it.
            alike: Whether answers of an unknown form must have that of most others.

        Returns:
            The results of the accepted answers, by client.
        """
        self.accepted.clear()
        self._send_all(requests, form, received or {})
        results: dict[int, Tensors] = {}
        for sent, reply in self.pending.collect():
            self._receive(sent, reply, results)
        if form is None and alike:
            self._exclude_odd_forms(requests, results)
        # After the forms: what loss is usual is decided among answers that count so far, not by broken ones.
        for client, reason in unusual_losses(results).items():
            del results[client]
            self._exclude(client, requests[client][0].kind, reason)
        # Screens look at rows only when all are here, and may refuse one that is accepted now (``exclude``).
        self.states_before = dict(self.tickets.state)
        for client, ticket in self.accepted.items():
            if client in results:  # the state of an answer that does not count must not count either
                self.tickets.take(client, ticket)
        return {client: results[client] for client in sorted(results)}

    def _exclude_odd_forms(self, requests: Mapping[int, tuple[SiteRequest, Any]], results: dict[int, Tensors]) -> None:
        """Where the server cannot predict the form of answers, accept those that have the form of the majority."""
        forms = {client: reply_form(result) for client, result in results.items() if not is_silent(result)}
        usual = majority_form(list(forms.values()))
        for client in [client for client, form in forms.items() if form != usual]:
            del results[client]
            self._exclude(client, requests[client][0].kind, "its answer does not have the form of most other answers")

    def _request(self, client: int, kind: str, round_number: int, turn: int = 0, measure: bool = False) -> SiteRequest:
        return SiteRequest(
            run=self.name,
            ticket=secrets.token_hex(16),  # not to be guessed: it is what tells this answer from any other
            kind=cast(RequestKind, kind),
            round=round_number,
            turn=turn,
            measure=measure,
            base=self.tickets.base.get(client, ""),
            state=self.tickets.state.get(client, ""),
            limit=self.limit,
        )

    def send(
        self, clients: Sequence[int], kind: RequestKind, tensors: Mapping[int, Mapping[str, Tensor]]
    ) -> dict[int, Tensors]:
        """Send some clients a request that is not a job of a round; the results of the accepted answers."""
        return self.exchange({c: (self._request(c, kind, self.round), dict(tensors[c])) for c in clients})

    def _send_all(
        self,
        requests: Mapping[int, tuple[SiteRequest, dict[str, Tensor]]],
        form: Any,
        received: Mapping[int, Message],
    ) -> None:
        nodes = self.roster.nodes()
        self.broken.difference_update(requests)
        for client, (request, tensors) in requests.items():
            node, sizes = nodes.get(client), self.roster.sizes.get(client)
            if node is None or sizes is None:
                self._exclude(client, request.kind, self.roster.absence(client))
                continue
            changes = None  # computing them decodes the reply: only where something looks at them
            if client in received and (self.runtime.steps or self.settings.max_norm is not None):
                changes = partial(self.runtime.channel.changes, message=received[client])
            expected = ExpectedAnswer(
                self.name,
                request.ticket,
                client,
                request.round,
                sizes,
                form,
                changes,
                self.score_bounds if request.kind in MEASURED else None,
                self.sample_counts,
                self.forms.most_steps(sizes),
            )
            data = pack(request, tensors | self.approval)
            self.pending.send(SentRequest(client, node.number, request, data, expected, time.time()))

    def _receive(self, sent: SentRequest, reply: ReceivedMessage, results: dict[int, Tensors]) -> None:
        try:
            if reply.unreadable:
                raise RejectedMessage(reply.unreadable)
            if reply.node != sent.node:  # before anything of it is unpacked
                raise RejectedMessage("another site answered in its name")
            answer, tensors = unpack(reply.data, SiteAnswer, self.limit)
            # Such an answer is refused below like any error; but without this the site would be asked in every round to
            # build on a state that it does not have.
            if answer.lost and answer.ticket == sent.request.ticket:
                self.tickets.forget(sent.client)
            if answer.spent and answer.ticket == sent.request.ticket:
                self.exhausted.add(sent.client)
            check_answer(answer, tensors, sent.expected, self.settings)
        except RejectedMessage as why:
            if isinstance(why, NotFinite):
                self.broken.add(sent.client)
            self._exclude(sent.client, sent.request.kind, str(why))
            return
        self.pending.settle(sent.request.ticket)
        results[sent.client] = tensors
        if sent.request.kind == "update":
            self.accepted[sent.client] = sent.request.ticket if answer.keeps else ""

    def _exclude(self, client: int, kind: str, reason: str) -> None:
        name = self.roster.names[client]
        log.warning("round %s: %s is left out of '%s': %s", self.round, name, kind, reason)
        self.excluded.append({"client": client, "name": name, "what": kind, "reason": reason})
        if reason.startswith(REFUSED):
            self.roster.record_refusal(client, kind, reason.removeprefix(REFUSED))

    def _evaluate_globally(self, jobs: list[Job], message: Message) -> list[Tensors | None]:
        """Evaluate the shared row on the global test set: at the evaluator, in one request, or here."""
        if self.settings.evaluator is None:
            return [self.runtime.do(job, message, {}) for job in jobs]
        evaluator = self.roster.evaluator
        if evaluator is None:
            self._exclude(len(self.settings.sites), "global", "not connected")
            return [None] * len(jobs)
        whole = torch.tensor([jobs[0].ids[0], jobs[-1].ids[1]])
        request = self._request(evaluator, "global", jobs[0].round)
        form = self.forms.of(jobs[0], message)
        results = self.exchange({evaluator: (request, {"shared/row": message["row"], "slice": whole})}, form)
        found = results.get(evaluator)
        if found is not None and ("counts" not in found or not float(found["counts"]) > 0):
            self._exclude(evaluator, "global", "counts must be positive")
            found = None
        # The caller adds up one result per job. The evaluator did all of them in one request, so that the model is sent
        # once, and the others count as nothing.
        nothing = None if found is None else {name: torch.zeros_like(t) for name, t in found.items()}
        return [found, *[nothing] * (len(jobs) - 1)]


def _place(job: Job) -> Tensor:
    return torch.tensor(job.places)


def _draw(seed: int, jobs: list[Job]) -> SubModelDraw | None:
    """Who trains a sub-model, by the clients' places in the wave."""
    if jobs[0].kind != "update":
        return None
    clients = {place: client for job in jobs for place, client in zip(job.places, job.ids, strict=True)}
    return SubModelDraw(seed, jobs[0].round, jobs[0].turn, [clients[place] for place in sorted(clients)])
