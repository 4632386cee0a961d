"""What the server has asked of a site so far, on the site's disk: rounds are counted here, over all restarts.

Of each kind of request the file has the last round and turn, how many rounds there were, and how often one was asked
again. A request for a later round is new; any other one is a repetition, of which a site's policy allows some: a server
that was killed, or had too few answers, asks again. The model of the last agreed round is saved once.

A new run of the same plan (``fedloom deploy run --new``) is counted from the start, as often as the policy allows. The
one before is over then, and its requests are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.message import message_digest
from fedloom.deploy.protocol.wire import SiteRequest
from fedloom.deploy.site.policy import Policy, Refused
from fedloom.files.atomic_write import write_atomic
from fedloom.files.json_text import parse_json
from fedloom.runs.folder.manifest import digest_of

FILE = "asked.json"
SCORES = ("score", "global")
TRAINING = ("update", "ask", "sum")
"""Requests that end with the last agreed round."""
AT_THE_END = ("model", "judge")
"""Requests of a comparison of all sites' models (``cross_site``)."""


@dataclass
class KindCount:
    """The requests of one kind: the last place, how many rounds, how many repetitions, and the last request."""

    round: int = -1
    turn: int = -1
    rounds: int = 0
    repeats: int = 0
    last: str = ""
    """The digest of the last request: its ticket, its place and its tensors."""


@dataclass
class RequestCount:
    """The requests of a run so far.

    Args:
        run: The name of the run; empty before the first request.
        kinds: The counts by kind of request.
        finished: The round whose model was saved, -1 before.
        final: The digest of the message that it was made of.
        past: The runs of the same plan before this one.
        earlier: How many rounds these had, by kind of request.
        scored: The digest of the model that was scored after each round, where only sums may leave.
    """

    path: Path
    run: str
    kinds: dict[str, KindCount] = field(default_factory=dict)
    finished: int = -1
    final: str = ""
    past: list[str] = field(default_factory=list)
    earlier: dict[str, int] = field(default_factory=dict)
    scored: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def read(folder: Path, plan: str) -> RequestCount:
        """The requests that a site's folder has counted; a damaged file is an error.

        Args:
            folder: The site's folder.
            plan: The digest of its plan; runs of another plan do not count.
        """
        path = folder / FILE
        if not path.exists():
            return RequestCount(path, "")
        try:
            values = parse_json(path.read_bytes())
            said = values.pop("digest")
            if said != digest_of(_canonical(values)):
                raise ValueError("not what was written")
            kinds = {kind: KindCount(**one) for kind, one in values["kinds"].items()}
            known = (values["run"], kinds, values["finished"], values["final"], values["past"], values["earlier"])
            found = RequestCount(path, *known, values["scored"])
        except (ValueError, TypeError, KeyError, AttributeError, OSError):
            raise FedloomError(
                f"{path} is damaged (its digest differs): restore it, or remove it to count the run's rounds from the "
                "start."
            ) from None
        return found if plan_of(found.run) == plan else RequestCount(path, "")

    def admit(self, request: SiteRequest, tensors: Mapping[str, Tensor], policy: Policy) -> bool:
        """Count a request, or refuse it; whether there is something to do.

        Args:
            tensors: Its tensors, which tell whether a final model is the one that was saved.
        """
        if request.run == self.run:
            return self._admit(request, tensors, policy)
        later = deepcopy(self)  # a request that is refused begins no run
        later._begin(request.run, policy)
        admitted = later._admit(request, tensors, policy)
        vars(self).update(vars(later))
        return admitted

    def _admit(self, request: SiteRequest, tensors: Mapping[str, Tensor], policy: Policy) -> bool:
        if request.round > policy.run_rounds:
            raise Refused(f"round {request.round} is beyond the {policy.run_rounds} rounds of the run")
        if request.kind == "update" and request.round == 0 and not policy.has_prelude:
            raise Refused("the method of the run asks sites to train in its rounds only, and not before the first one")
        if request.kind == "finish":
            return self._is_new_final(request, tensors)
        if request.kind in TRAINING and self.finished >= policy.rounds:
            raise Refused(f"the {policy.rounds} agreed rounds are over ({FILE} counts them)")
        if request.kind in AT_THE_END and request.round != self.finished:
            raise Refused("sites' models are compared once, when the run has ended and its models are saved")
        if request.kind in SCORES and policy.only_sums:
            self._score_once(request, tensors)
        if request.kind != "sum":  # a phase of a sum gives nothing away without the update, which is counted
            self._count(request, tensors, policy)
        return True

    def _score_once(self, request: SiteRequest, tensors: Mapping[str, Tensor]) -> None:
        """Where only sums may leave, score one model per round over all runs: many tell what a sum hides."""
        place, model = f"{request.kind} {request.round}", _digest(tensors)
        if self.scored.setdefault(place, model) != model:
            raise Refused(f"it has scored another model of round {request.round}, and a run of sums has one scored")

    def _begin(self, run: str, policy: Policy) -> None:
        """Count a run from the start; one that a later run has followed is over."""
        if run in self.past:
            raise Refused("its run is over, since a later one has begun")
        if self.run:
            allowed = policy.settings.new_runs
            if len(self.past) >= allowed:
                raise Refused(f"it is a new run of the same plan, and new_runs = {allowed} of those are allowed")
            self.past.append(self.run)
            for kind, seen in self.kinds.items():  # what comes before round 1 counts as a round in a run without any
                self.earlier[kind] = self.earlier.get(kind, 0) + max(1, seen.rounds)
        self.run, self.kinds, self.finished, self.final = run, {}, -1, ""

    def _count(self, request: SiteRequest, tensors: Mapping[str, Tensor], policy: Policy) -> None:
        seen = self.kinds.setdefault(request.kind, KindCount())
        asked = f"{request.ticket} {request.round} {request.turn} {_digest(tensors)}"
        if asked == seen.last:  # the same request to the last byte, after a restart of this site: the same answer
            return
        is_new = (request.round, request.turn) > (seen.round, seen.turn)
        if request.turn >= policy.turns:
            raise Refused(f"it is asked {request.turn + 1} times in one round, and the limit is {policy.turns}")
        if is_new and request.round > seen.round:
            most = policy.settings.rounds
            is_over = most is not None and self.earlier.get(request.kind, 0) + seen.rounds >= most
            if is_over or seen.rounds >= policy.rounds:
                raise Refused(f"it has taken part in {policy.rounds} rounds, and no more are allowed")
            seen.rounds += request.round > 0
        elif not is_new:
            if request.kind == "judge" and not seen.last.endswith(_digest(tensors)):
                raise Refused("it has scored other models of this run's sites, and is not asked for more")
            if seen.repeats >= policy.repeats:
                raise Refused(f"it was asked again {policy.repeats} times, and no more repetitions are allowed")
            seen.repeats += 1
        if is_new:
            seen.round, seen.turn = request.round, request.turn
        seen.last = asked
        self._write()

    def _is_new_final(self, request: SiteRequest, tensors: Mapping[str, Tensor]) -> bool:
        """Whether the final model of a request is to be saved: the one that is there already is not saved again."""
        if request.round > self.finished:
            return True
        if (request.round, _digest(tensors)) == (self.finished, self.final):
            return False
        raise Refused(f"the model after round {self.finished} is saved, and a later request does not replace it")

    def note_final(self, request: SiteRequest, tensors: Mapping[str, Tensor]) -> None:
        """Note that the final model of a request is saved."""
        self.finished, self.final = request.round, _digest(tensors)
        self._write()

    def _write(self) -> None:
        values = {key: value for key, value in asdict(self).items() if key != "path"}
        write_atomic(self.path, _canonical(values | {"digest": digest_of(_canonical(values))}))


def plan_of(run: str) -> str:
    """The digest of the plan in the name of a run."""
    return run.partition("-")[0]


def _canonical(values: dict[str, object]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


def _digest(tensors: Mapping[str, Tensor]) -> str:
    return message_digest(tensors).hex()
