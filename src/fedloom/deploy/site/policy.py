"""A site's policy: which requests of the server it refuses, and which tensors of its own answers never leave.

The settings are the site's own (``[policy]`` in ``site.toml``), and everything is checked here, against the site's own
copy of the run and the client code that it runs: nothing is taken from the server's word. ``fedloom deploy explain`` on
a site's folder asks the same functions, so what it says is what the site does. ``RequestCount`` counts rounds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep
from fedloom.core.declarations import Declared, Model, Update
from fedloom.core.errors import FedloomError, unknown
from fedloom.core.relays import RELAY
from fedloom.deploy.participant_folder import SITE_FILE
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.message_validation import ReplyForm
from fedloom.deploy.protocol.wire import REFUSED, RequestKind, SiteRequest
from fedloom.deploy.settings import PolicySettings, RequiredStep, SiteSettings
from fedloom.files.private_log import open_private_log
from fedloom.registry.kinds import CHANNEL_STEPS, METHODS
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.jobs import SILENT
from fedloom.secure.sum_step import SumStep
from fedloom.secure.sums import LOST, SUM

LOG = "policy.jsonl"
"""The site's record of what it refused: a line each, only ever appended, and rotated like a log."""
EVALUATIONS: tuple[RequestKind, ...] = ("ask", "score", "global", "judge")
"""Requests whose answers are scores on the site's data."""
MEASURED = ("received/", "trained/")
"""Prefixes of the scores that go with an update."""
COUNTS = ("steps", "samples", "bytes", SILENT)
"""Numbers that go with every update."""


class Refused(FedloomError):  # noqa: N818
    """What the site's policy does not allow."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{REFUSED}{reason}")
        self.reason = reason


@dataclass(frozen=True)
class Policy:
    """A site's policy for the run in its folder.

    Args:
        settings: What the site's file says.
        run: The name of the run: its method and its task.
        sends: What the method declares to send.
        width: How many numbers the model has.
        private: Whether the site adds noise to what it sends: then nothing leaves that has none.
        method_turns: How often the method asks a client within a round.
        has_prelude: Whether the method may ask clients before the first round.
        hands_on: Whether sites seal their models for each other.
    """

    settings: PolicySettings
    digest: str
    run: str
    method: str
    sends: Declared
    steps: tuple[ChannelStep, ...]
    run_rounds: int
    width: int
    private: bool
    method_turns: int = 1
    has_prelude: bool = True
    hands_on: bool = False

    @staticmethod
    def of(site: SiteSettings, blueprint: Blueprint, runtime: ClientRuntime) -> Policy:
        """The policy of a site; one that names what does not exist is an error.

        Args:
            blueprint: The run in its folder.
            runtime: What the site runs of it.
        """
        run = f"{blueprint.label} on {blueprint.config.task.name}"
        method, sends = blueprint.method_name, runtime.algorithm.sends
        settings, where = _canonical(site.policy), f"site {site.name}: policy in {SITE_FILE}"
        _check_tensors(settings.tensors or {}, {method: sends}, where)
        for name in settings.methods or ():
            _declarations_of(name, {method: sends}, f"methods of {where}")
        for step in settings.channel or ():
            _check_step(step, runtime.steps, where)
        rounds, width, private = blueprint.config.rounds, len(blueprint.initial), blueprint.config.clients_add_noise
        algorithm = runtime.algorithm
        asks = algorithm.turns, type(algorithm).prelude is not Algorithm.prelude, runtime.hides_models
        return Policy(settings, blueprint.digest, run, method, sends, runtime.steps, rounds, width, private, *asks)

    @property
    def rounds(self) -> int:
        """The most rounds that the site takes part in."""
        return min(self.settings.rounds or self.run_rounds, self.run_rounds)

    @property
    def repeats(self) -> int:
        """How often the site may be asked again for what it has done."""
        return max(20, self.run_rounds) if self.settings.repeats is None else self.settings.repeats

    @property
    def turns(self) -> int:
        """How often the site may be asked to train within a round: what the signed plan's method needs, and no more."""
        return self.method_turns if self.settings.turns is None else self.settings.turns

    @property
    def only_sums(self) -> bool:
        """Whether nothing of a reply leaves the site but its part of a sum."""
        return bool(self.sums)

    @property
    def sums(self) -> list[str]:
        """The names of the steps that let only sums leave: everything that the method sends goes through them."""
        return [_step_name(step) for step in self.steps if isinstance(step, SumStep)]

    def forbids_run(self) -> str:
        """Why the site takes no part in the run at all; empty if it does."""
        runs, methods = self.settings.runs, self.settings.methods
        if runs is not None and self.digest not in runs and self.run not in runs:
            return f"it takes part in {_enumeration(runs, 'run')}, and this one is {self.digest} ({self.run})"
        if methods is not None and self.method not in methods:
            return f"it takes part in {_enumeration(methods, 'method')}, and this run's is {self.method}"
        lacking = [reason for step in self.settings.channel or () if (reason := self._lacks(step))]
        return lacking[0] if lacking else ""

    def forbids(self, kind: RequestKind) -> str:
        """Why a kind of request is refused whenever it comes; empty if it is not."""
        if kind in ("update", "sum") and not self.settings.updates:
            return "what it trains may not leave (updates = false)"
        if kind in ("update", "sum"):
            withheld = [reason for name in self.sends if (reason := self.forbids_tensor(name))]
            return withheld[0] if withheld else ""
        if kind in EVALUATIONS and not self.settings.evaluation:
            return "scores on its data may not leave (evaluation = false)"
        if kind == "model" and not self.settings.model:
            return "the model that it predicts with may not leave (model = false)"
        if kind == "judge" and not self.settings.model:
            return "it does not score the models of other sites (model = false)"
        if kind in (*EVALUATIONS, "model") and self.private:
            return "scores and models of its own have no noise, and this run is private"
        return ""

    @property
    def withholds_scores(self) -> bool:
        """Whether the scores that go with an update stay here, and NaN leaves instead."""
        return self.private or not self.settings.evaluation

    def forbids_tensor(self, name: str) -> str:
        """Why a tensor of an update may not leave; empty if it may.

        Args:
            name: The tensor's name in the method's reply; behind an ``@`` is what a step of the channel adds to it.
        """
        plain = name.partition("@")[0]
        if plain == RELAY and self.hands_on:
            plain = "row"  # the same, sealed for the next in a chain
        if plain in (SUM, LOST) and self.sums:
            return ""  # the sum of the tensors that the method declares, each of which is asked for above
        allowed = (self.settings.tensors or {}).get(self.method)
        if plain not in self.sends:
            return f"{self.method} sends '{plain}', which it does not declare"
        if allowed is not None:
            return "" if plain in allowed else f"'{plain}' of {self.method} may not leave"
        required = [step.name for step in self.settings.channel or () if step.name not in self.sums]
        if required and not isinstance(self.sends[plain], Model | Update):
            return f"'{plain}' of {self.method} would leave without the channel that its policy requires"
        return ""

    def release(self, request: SiteRequest, tensors: Mapping[str, Tensor], form: ReplyForm | None) -> dict[str, Tensor]:
        """What of an answer leaves the site; what was not declared, or is larger than expected, is refused.

        Args:
            tensors: The answer.
            form: The form of such an answer, which a job on two samples has shown; None if that failed.
        """
        for name, tensor in tensors.items():
            if name.startswith("reply/") and (reason := self.forbids_tensor(name.removeprefix("reply/"))):
                raise Refused(reason)
            if request.kind == "update" and not name.startswith(("reply/", *MEASURED)) and name not in COUNTS:
                raise Refused(f"'{name}' is not part of an update")
            if form is not None and name not in form:
                raise Refused(f"'{name}' is not part of such an answer")
            most = self.width if form is None else math.prod(form[name][1])
            if tensor.numel() > most:
                raise Refused(f"'{name}' has {tensor.numel():,} numbers, and {most:,} are expected")
        if not self.withholds_scores:
            return dict(tensors)
        return {name: _unknown(tensor) if name.startswith(MEASURED) else tensor for name, tensor in tensors.items()}

    def _lacks(self, required: RequiredStep) -> str:
        """What the run's channel lacks of a required step."""
        for step in self.steps:
            if _step_name(step) == required.name:
                for key, least in required.least.items():
                    if not float(getattr(step, key)) >= least:
                        return f"the channel's {required.name} has {key} = {getattr(step, key)}, below {least:g}"
                for key, most in required.most.items():
                    if not float(getattr(step, key)) <= most:
                        return f"the channel's {required.name} has {key} = {getattr(step, key)}, above {most:g}"
                return ""
        return f"its updates must go through '{required.name}', which the run's channel does not have"


def log_refusal(folder: Path, request: SiteRequest, reason: str) -> None:
    """Append what was refused, when and why to the site's record.

    Args:
        folder: The site's folder.
        request: What the server asked.
    """
    time = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"time": time, "run": request.run, "round": request.round, "request": request.kind, "reason": reason}
    with open_private_log(folder / LOG) as file:
        file.write(json.dumps(entry).encode() + b"\n")


def _canonical(settings: PolicySettings) -> PolicySettings:
    """The settings with methods and steps in their registered spelling."""
    tensors, methods, channel = settings.tensors, settings.methods, settings.channel
    return settings.model_copy(
        update={
            "tensors": None if tensors is None else {METHODS.canonical(name): some for name, some in tensors.items()},
            "methods": None if methods is None else [METHODS.canonical(name) for name in methods],
            "channel": None
            if channel is None
            else [step.model_copy(update={"name": CHANNEL_STEPS.canonical(step.name)}) for step in channel],
        }
    )


def _check_tensors(tensors: Mapping[str, list[str]], own: Mapping[str, Declared], where: str) -> None:
    for method, names in tensors.items():
        declared = _declarations_of(method, own, f"tensors of {where}")
        for name in names:
            if declared is not None and name not in declared:
                raise unknown(f"tensor of {method} in tensors of {where}:", name, declared)


def _declarations_of(method: str, own: Mapping[str, Declared], where: str) -> Declared | None:
    """What a method declares to send; None if it is a user-defined one that this run does not have."""
    if method in own:
        return own[method]
    if ":" in method:
        return None
    if method not in METHODS:
        raise unknown(f"method in {where}:", method, METHODS)
    return METHODS[method].sends


def _check_step(required: RequiredStep, steps: tuple[ChannelStep, ...], where: str) -> None:
    kinds: dict[str, type] = {**CHANNEL_STEPS, **{_step_name(step): type(step) for step in steps}}
    if required.name not in kinds:
        if ":" not in required.name:
            raise unknown(f"step in channel of {where}:", required.name, kinds)
        return
    settings = kinds[required.name].__dataclass_fields__  # type: ignore[attr-defined]
    for key in (*required.least, *required.most):
        if key not in settings:
            raise unknown(f"setting of {required.name} in channel of {where}:", key, settings)


def _step_name(step: ChannelStep) -> str:
    """The name of a step as a policy has it: registered, or ``file.py:Class`` without the folder of the file."""
    return str(CHANNEL_STEPS.plain_one(step)["name"]).rpartition("/")[2]


def _enumeration(names: list[str], what: str) -> str:
    return f"the {what}{'' if len(names) == 1 else 's'} {', '.join(names)}" if names else f"no {what}"


def _unknown(tensor: Tensor) -> Tensor:
    """A score that is not told: the server takes NaN for a site without test samples."""
    return torch.full_like(tensor, torch.nan)
