"""The process of a site: it holds torch, the site's data and its client's state, and answers the server's messages.

The client half of the method runs here exactly as in a simulation, as a cohort of one. A request that the site's policy
does not allow is refused and logged before anything is done for it. An error in the client half, or a full disk,
becomes an answer that reports it, and the process continues. The text of an unexpected error stays in the site's own
log, since it may quote data.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, holds
from fedloom.core.kept_rows import KeptRows, pack_kept
from fedloom.core.message import Message, message_digest
from fedloom.core.model.adapted_model import model_row
from fedloom.deploy import audit_log
from fedloom.deploy.flower.site_transport import SiteTransport
from fedloom.deploy.model_folder import save_model
from fedloom.deploy.protocol.approval_tensor import take_approval
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.relay_requests import INTRODUCTION, to_tensor
from fedloom.deploy.protocol.reply_forms import ReplyForms
from fedloom.deploy.protocol.sum_requests import read_sum
from fedloom.deploy.protocol.versions import PROTOCOL
from fedloom.deploy.protocol.wire import (
    REFUSED,
    RejectedMessage,
    SiteAnswer,
    SiteRequest,
    check_size,
    pack,
    unpack,
)
from fedloom.deploy.relay_keys import relay_keys
from fedloom.deploy.settings import OPENED, READY, SiteSettings, load_site
from fedloom.deploy.site.approvals import RunApprovals
from fedloom.deploy.site.openings import Openings
from fedloom.deploy.site.plan_needs import PlanNeeds
from fedloom.deploy.site.policy import Policy, Refused, log_refusal
from fedloom.deploy.site.privacy_count import BudgetSpent, PrivacyCount
from fedloom.deploy.site.relays import SiteRelays
from fedloom.deploy.site.request_count import RequestCount, plan_of
from fedloom.deploy.site.state import SiteState, StateLost
from fedloom.deploy.site.sums import SiteSums
from fedloom.deploy.sum_keys import site_keys
from fedloom.registry.nested_keys import select_prefix
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.jobs import Job, Tensors, split_kept
from fedloom.rounds.metrics import metric_values
from fedloom.runs.prepare import client_ledgers, planned_run
from fedloom.secure.sum_step import SumSession
from fedloom.secure.sums import LOST, SUM
from fedloom.training.metric_sums import MetricSums
from fedloom.training.threads import single_thread

log = logging.getLogger("fedloom")
LARGEST = 1 << 40
"""Most bytes of a message from the server: a site accepts any size."""
MOST_MODELS = 64
"""Models that a site evaluates at once although its folder names fewer sites."""


@dataclass(frozen=True)
class SiteProcess:
    """A site that answers requests."""

    folder: Path
    settings: SiteSettings
    blueprint: Blueprint
    runtime: ClientRuntime
    states: SiteState

    @staticmethod
    def open(folder: Path) -> SiteProcess:
        """Read and check a site's folder and data; a ``FedloomError`` says what is wrong."""
        settings = load_site(folder)
        blueprint = Blueprint.load(folder)
        task = blueprint.site_task(settings, folder)
        site = SiteProcess(folder, settings, blueprint, blueprint.runtime(task), SiteState(folder / "kept"))
        if reason := site.policy.forbids_run():
            log.warning("%s%s: this site will refuse the server's requests", REFUSED, reason)
        site.count, site.privacy, site.approvals  # noqa: B018 (a damaged file is an error now)
        return site

    @cached_property
    def policy(self) -> Policy:
        """What this site takes part in and what may leave it."""
        return Policy.of(self.settings, self.blueprint, self.runtime)

    @cached_property
    def needs(self) -> PlanNeeds:
        """What the run in this site's folder needs of it."""
        return PlanNeeds.of(self.blueprint, self.runtime.algorithm, self.client)

    @cached_property
    def count(self) -> RequestCount:
        """What the server has asked so far."""
        return RequestCount.read(self.folder, self.plan)

    @cached_property
    def approvals(self) -> RunApprovals:
        """Which runs it has begun with the approver's signature."""
        return RunApprovals.read(self.folder, self.blueprint)

    @cached_property
    def privacy(self) -> PrivacyCount:
        """What this site has spent of its privacy, where the run adds noise here."""
        task, config = self.runtime.training.task, self.blueprint.config
        plan = planned_run(config, self.runtime.algorithm, task, task.federation.clients, selects=True, deployed=True)
        ledgers = client_ledgers(config, plan)
        samples = len(task.federation.train[self.client])
        return PrivacyCount.read(self.folder, ledgers, samples, asked=bool(self.count.run))

    @cached_property
    def plan(self) -> str:
        """The digest of the run in this site's folder, whoever else takes part in it."""
        return self.blueprint.plan_digest

    @cached_property
    def audited_refusals(self) -> set[tuple[str, str]]:
        """The refusals that are in the audit log, by kind and reason."""
        return set()

    @cached_property
    def forms(self) -> ReplyForms:
        """The forms that answers of this site have."""
        return ReplyForms(self.runtime)

    @cached_property
    def _sums(self) -> SiteSums:
        """The site's half of the sums of its run."""
        step = self.runtime.sum_step
        if step is None:
            raise RejectedMessage("it belongs to a sum, and the run of this site has none")
        keys = site_keys(self.folder, self.blueprint.sites)
        trained = "update" in (self.count.kinds | self.count.earlier)
        sends_no_model = not holds(Fact.MODEL_DOWN, self.runtime.algorithm)
        return SiteSums(step, self.client, keys, Openings.read(self.folder, trained, sends_no_model))

    @cached_property
    def _relays(self) -> SiteRelays | None:
        """The site's half of handing models on, if the sites of its run encrypt them for each other."""
        made, algorithm = self.blueprint, self.runtime.algorithm
        if not self.runtime.hides_models:
            return None
        keys = relay_keys(self.folder, made.sites)
        width = self.runtime.training.task.layout.width
        return SiteRelays(algorithm, self.client, tuple(made.sites), self.runtime.setting.seed, width, keys)

    @property
    def client(self) -> int:
        """The site's client number."""
        return self.settings.client

    def answer(self, data: bytes) -> bytes:
        """The answer to a message; an invalid message or a failure is reported in it."""
        try:
            request, tensors = unpack(data, SiteRequest, LARGEST)
        except RejectedMessage as why:
            log.warning("a message was refused: %s", why)
            return pack(SiteAnswer(run="", ticket="", client=self.client, round=0, error=f"message refused: {why}"), {})
        about = dict[str, str | int]()
        result, error, lost, spent = dict[str, Tensor](), "", False, False
        log.info("round %s: %s", request.round, request.kind)
        began = time.perf_counter()
        try:
            self._admit(request)
            about = self.about() if request.kind == "hello" else {}
            if request.kind == "hello" and self._relays is not None and self.client < len(self.blueprint.sites):
                result = {INTRODUCTION: to_tensor(self._relays.keys.introduction)}
            if request.kind != "hello" and self._count(request, tensors):
                result = self._perform(request, tensors)
                check_size(result, request.limit)
        except FedloomError as why:
            if isinstance(why, Refused):
                with suppress(OSError):  # a full disk: the log below has it too
                    self._record_refusal(request, why.reason)
            error, lost, spent = str(why), isinstance(why, StateLost), isinstance(why, BudgetSpent)
        except OSError as why:
            error = f"disk error at the site: {why.strerror}"
        except Exception as why:
            error = f"{type(why).__name__} in the client's code (see the site's log)"
            log.exception("round %s: %s failed", request.round, request.kind)
        if error:
            log.error("round %s: %s", request.round, error)
        else:
            log.info("round %s: %s took %.3f s", request.round, request.kind, time.perf_counter() - began)
        answer = SiteAnswer(
            run=request.run,
            ticket=request.ticket,
            client=self.client,
            round=request.round,
            error=error[:2000],
            keeps=request.kind == "update" and not error and self.states.has(request.ticket),
            lost=lost,
            spent=spent,
            about=about,
        )
        try:
            return pack(answer, {} if error else result)
        except Exception:  # a user-defined method with a tensor that has no wire format
            log.exception("round %s: the answer cannot be packed", request.round)
            return pack(answer.model_copy(update={"error": "its answer cannot be packed", "keeps": False}), {})

    def about(self) -> dict[str, str | int]:
        """The site's answer to the greeting: name, versions, the digest of its run, and its numbers of samples."""
        federation, client = self.runtime.scoring.task.federation, self.client
        parts = {part: len(getattr(federation, part)[client]) for part in ("train", "valid", "test")}
        return {
            "name": self.settings.name,
            "fedloom": fedloom.__version__,
            "protocol": PROTOCOL,
            "torch": str(torch.__version__),
            "digest": self.policy.digest,
            **parts,
            "points": int(federation.points[client]),
        }

    def _record_refusal(self, request: SiteRequest, reason: str) -> None:
        """Write a refusal to ``policy.jsonl``, and to the audit log if it is the first of its kind and reason.

        Numbers in a reason are the server's, which could fill the audit log with them: they do not make it another one.
        """
        log_refusal(self.folder, request, reason)
        kind = (request.kind, re.sub(r"[0-9]+", "0", reason))
        if kind not in self.audited_refusals:
            self.audited_refusals.add(kind)
            audit_log.append(self.folder, "request refused", request=request.kind, round=request.round, reason=reason)

    def _admit(self, request: SiteRequest) -> None:
        """Refuse a request of another run, and one that the site's policy never allows or its run does not need."""
        if plan_of(request.run) != self.plan and request.kind != "hello":  # a greeting says which run this site has
            raise Refused("it belongs to a different run from the one in this site's folder")
        reason = self.policy.forbids_run() or self.policy.forbids(request.kind) or self.needs.forbids(request)
        if reason:
            raise Refused(reason)
        if request.kind != "hello":
            self.privacy  # noqa: B018 (read before the request is counted, which tells a lost count from a new one)
        if request.kind == "update" and self.runtime.sum_step is not None:
            self._sums  # noqa: B018 (for the same reason)

    def _count(self, request: SiteRequest, tensors: Tensors) -> bool:
        """Count a request, or refuse it, and note the run that it begins; whether there is something to do."""
        approval = take_approval(tensors)
        begins = self.approvals.admit(request.run, approval, self.count)
        admitted = self.count.admit(request, tensors, self.policy)
        if begins:
            self.approvals.note(request.run, approval, self.count)
        return admitted

    def _perform(self, request: SiteRequest, tensors: Tensors) -> Tensors:
        message = Message(select_prefix(tensors, "shared/"), select_prefix(tensors, "each/"))
        if request.kind == "global":
            first, last = tensors["slice"].tolist()
            return self._do(Job("global", request.round, [first, last], []), request, message, {})[0]
        if request.kind == "judge":
            if len(tensors["rows"]) > max(len(self.blueprint.sites), MOST_MODELS):  # sites may have been added
                raise Refused(f"it is to evaluate {len(tensors['rows']):,} models, and there are fewer sites")
            return self._evaluate_rows(tensors["rows"])
        if request.kind == "sum":
            return self._sums.answer(*read_sum(request, tensors))
        kept = self.states.read(request.state)
        if request.kind == "update":
            return self._train(request, message, kept, tensors)
        if request.kind in ("model", "finish"):
            row = self._prediction_row(request, message, kept)
            if request.kind == "model":
                return {"row": row}
            task = self.runtime.scoring.task.of_client(self.client)
            save_model(
                self.folder / "model",
                self.blueprint,
                model_row(task, row),
                client=self.settings.name,
                method=self.blueprint.label,
                round=request.round,
                task=task,
            )
            self.count.note_final(request, tensors)
            log.info("the model after round %s is in %s", request.round, self.folder / "model")
            return {}
        kind: Any = request.kind
        job = Job(kind, request.round, [self.client], [0], request.measure)
        return self._do(job, request, message, kept)[0]

    def _do(
        self, job: Job, request: SiteRequest, message: Message, kept: Mapping[str, KeptRows]
    ) -> tuple[Tensors, dict[str, KeptRows]]:
        """The result of a job: what the policy lets leave, and what stays."""
        leaves, stays = split_kept(self.runtime.do(job, message, kept))
        return self.policy.release(request, leaves, self.forms.of(job, message)), stays

    def _train(self, request: SiteRequest, message: Message, kept: dict[str, KeptRows], tensors: Tensors) -> Tensors:
        job = Job("update", request.round, [self.client], [0], request.measure, request.turn)
        if self.runtime.sum_step is None:
            if self._relays is not None:
                message = self._relays.open(request, message, tensors)
            result, stays = self._do(job, request, message, kept)
            self.privacy.spend(int(result["steps"]))
            if self._relays is not None:
                result = self._relays.seal(request, result, tensors)
        else:
            session, phase, got = read_sum(request, tensors)
            if message.each or message_digest(message.shared) != session.message:
                raise Refused("its model is not the one that all sites of the sum were told")
            self._check_sum(message, session)
            forgets = not kept and self.states.has_any
            self._sums.admit_row(session, phase, message_digest(pack_kept(kept)), forgets)
            result, stays = self._do(replace(job, session=session), request, message, kept)
            if bool(result.pop(f"reply/{LOST}")):
                raise FedloomError("its update is not finite")
            self.privacy.spend(int(result["steps"]))
            hidden = self._sums.answer(session, phase, got, result[f"reply/{SUM}"][0])
            result |= {f"reply/{SUM}": hidden["row"][None]}
        self.states.discard_all_but(request.base, request.state)
        if state := kept | stays:
            self.states.write(request.ticket, state)
        return result

    def _check_sum(self, message: Message, session: SumSession) -> None:
        """Refuse what an honest server never sends, and what would single this site out of a sum."""
        strange = [name for name in message.shared if name not in self.runtime.algorithm.receives]
        if strange and self.runtime.downlink is None:  # one model must not have two digests
            raise Refused(f"{strange[0]} is nothing that the method of the run sends to sites")
        own = len(self.runtime.training.task.federation.train[self.client])
        if self.blueprint.config.weight_by == "uniform" and session.most != 1:
            raise Refused("all sites of the run count alike, and the sum has another largest weight")
        if self.blueprint.config.weight_by != "uniform" and session.most < own:
            raise Refused(
                "the largest weight of the sum is below its own samples, so that it would count less than it has"
            )

    def _prediction_row(self, request: SiteRequest, message: Message, kept: Mapping[str, KeptRows]) -> Tensor:
        """The model row that this client predicts with."""
        runtime = self.runtime.of_client(self.client)
        rows = runtime.prediction_rows(runtime.cohort([self.client], request.round, kept), message).detach()
        return (rows[0] if rows.dim() == 2 else rows).clone()

    def _evaluate_rows(self, rows: Tensor) -> Tensors:
        """Evaluate some model rows on this site's test part: the task's score and the mean loss of each."""
        runtime, mine = self.runtime, self.runtime.scoring.task.federation.test[self.client]
        metrics = MetricSums(runtime.metrics[:1], len(rows)) if runtime.metrics else None
        scores = runtime.scoring.scores(rows, [mine] * len(rows), metrics)
        values = metric_values(runtime.metrics[:1], runtime.sums(metrics, rows[0]), scores.counts)
        return {"score": next(iter(values.values()), scores.mean_score), "loss": scores.mean_loss}


def _once(action: Callable[[], None]) -> Callable[[], None]:
    """The action, done on the first call only."""
    calls: list[bool] = []

    def first() -> None:
        if not calls:
            calls.append(True)
            action()

    return first


def main(folder: Path) -> None:
    """Open a site and answer messages until the process is ended."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        site = SiteProcess.open(folder)
    except FedloomError as why:
        print(f"Error: {why}", file=sys.stderr)
        sys.exit(2)
    parts = ", ".join(f"{site.about()[part]} {part}" for part in ("train", "valid", "test"))
    log.info("site %s: %s samples", site.settings.name, parts)
    print(OPENED, flush=True)
    with single_thread():
        SiteTransport(folder).serve(site.answer, _once(lambda: print(READY, flush=True)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
