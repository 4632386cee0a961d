"""A run's configuration: complete, checked, and the same in TOML, on the command line and in Python.

An unknown key, a wrong type or an impossible value ends in one sentence with the key's path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError, unknown
from fedloom.core.local_work import LocalWork
from fedloom.core.names import NO_ALIASES, canonical_name
from fedloom.core.nested import set_nested
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.user_classes import user_class, user_class_name
from fedloom.core.validation import toml_value, validate
from fedloom.data.concept_drift import Drift
from fedloom.data.withheld_class import Withhold
from fedloom.engines import ENGINES
from fedloom.prediction.registry import STAGE_ALIASES, STAGES
from fedloom.selection.random import Random
from fedloom.selection.registry import SELECTOR_ALIASES, SELECTORS
from fedloom.training.execution import EXECUTIONS


class Strict(BaseModel):
    """A section that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskConfig(Strict):
    """Data and model. ``name`` is a task of ``fedloom list tasks`` or ``own``, with ``path`` naming the file."""

    name: str = "digits"
    path: str | None = None
    target: str = "label"
    client_column: str = "client"
    ignore: list[str] = []
    clients: int | None = None
    partition: dict[str, Any] | str | None = None
    test_share: float = 0.2
    valid_share: float = 0.0
    communal_per_class: int = 0
    model: str | None = None
    model_options: dict[str, Any] = {}
    augment: bool = False
    withhold: Withhold | None = None
    drift: Drift | None = None
    options: dict[str, Any] = {}
    """Settings of the task's own: which label a flow task predicts, and the like."""
    seed: int | None = None
    """The seed of the partition and of the initial model, where it is not the run's."""


class RunConfig(Strict):
    """Everything that decides what a run computes, and a few things that do not: workers, engine, checkpoint_every."""

    rounds: int = 20
    seed: int = 0
    weight_by: Literal["samples", "steps", "uniform"] = "samples"
    execution: str = "auto"
    workers: int = 1
    engine: str = "auto"
    ray_address: str | None = None
    """The Ray cluster's ``host:port``, or ``auto`` for the one of this machine; a local Ray is started by default."""
    eval_every: int = 1
    eval_clients: int | None = None
    clients_on_global: bool = False
    checkpoint_every: int = 1
    size_groups: list[int] | None = None
    task: TaskConfig = TaskConfig()
    method: dict[str, Any] = {"name": "fedavg"}
    local: LocalWork | None = None
    selection: Any = Random()
    server_optimizer: ServerOptimizer | None = None
    personal: list[Any] = []
    new_clients: int = 0
    made_by: dict[str, str] = {}

    def check(self) -> RunConfig:
        """The same config, or the sentence that says what is wrong with it."""
        for name in ("rounds", "workers", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise FedloomError(f"{name}={getattr(self, name)}: it must be at least 1.")
        if self.new_clients < 0:
            raise FedloomError(f"new_clients={self.new_clients}: it must not be negative.")
        if self.eval_every < 0:
            raise FedloomError(f"eval_every={self.eval_every}: use 0 for never, or a number of rounds.")
        if self.eval_clients is not None and self.eval_clients < 1:
            raise FedloomError(f"eval_clients={self.eval_clients}: score at least one client.")
        if self.task.clients is not None and self.task.clients < 1:
            raise FedloomError(f"clients={self.task.clients}: a federation needs at least one client.")
        for name in ("test_share", "valid_share"):
            if not 0 <= getattr(self.task, name) < 1:
                raise FedloomError(f"task.{name}={getattr(self.task, name)}: a share is at least 0 and less than 1.")
        if not callable(self.selection):
            raise FedloomError(f"selection={self.selection!r}: a selector has a __call__(self, pool) that chooses.")
        if self.execution not in EXECUTIONS:
            raise unknown("execution", self.execution, EXECUTIONS)
        self._check_engine()
        return self

    def _check_engine(self) -> None:
        if self.engine not in ("auto", *ENGINES):
            raise unknown("engine", self.engine, ("auto", *ENGINES))
        if self.engine == "inline" and self.workers > 1:
            raise FedloomError(f"engine=inline works alone: use workers=1, or engine=processes for {self.workers}.")
        if self.ray_address is None:
            return
        if self.engine != "ray":
            raise FedloomError(
                f"ray_address={self.ray_address} is for engine=ray, and this is {self.engine}: drop one."
            )
        if self.ray_address != "auto" and not re.fullmatch(r"[^/\s]+:\d{1,5}", self.ray_address):
            raise FedloomError(f"ray_address={self.ray_address}: write host:port, for instance 10.0.0.5:6379, or auto.")


def parse(values: Mapping[str, Any], where: str = "the configuration") -> RunConfig:
    """A checked config from nested values."""
    chosen = named_part(values.get("selection", Random()), SELECTORS, object, "selection", "random", SELECTOR_ALIASES)
    stages = values.get("personal", [])
    if isinstance(stages, (str, Mapping)) or not isinstance(stages, Sequence):
        raise FedloomError(
            f"personal={stages!r} in {where}: give a list of stages, for instance [{{name='finetune'}}]."
        )
    stages = [named_part(stage, STAGES, PredictionStage, "personal stage", aliases=STAGE_ALIASES) for stage in stages]
    config: RunConfig = validate(RunConfig, {**values, "selection": chosen, "personal": stages}, where)
    return config.check()


def named_part(
    value: Any,
    known: Mapping[str, Any],
    base: type,
    what: str,
    default: str | None = None,
    aliases: Mapping[str, str] = NO_ALIASES,
) -> Any:
    """A selector or a stage from ``{"name": ..., settings}``, from its name, or from itself."""
    if not isinstance(value, (str, Mapping)):
        part = value() if isinstance(value, type) and issubclass(value, base) else value
        if not isinstance(part, base):
            raise FedloomError(
                f"{value!r} is no {what}: give one of {', '.join(known)}, or a {base.__name__} of yours."
            )
        return part
    settings = {"name": value} if isinstance(value, str) else dict(value)
    name = settings.pop("name", default)
    if not isinstance(name, str):
        raise FedloomError(f"a {what} needs a name: one of {', '.join(known)}.")
    if ":" in name:
        return validate(_with_settings(user_class(name, base, what), settings, what), settings, f"{what} {name}")
    registered = canonical_name(name, known, aliases)
    if registered not in known:
        raise unknown(what, name, known)
    return validate(known[registered], settings, f"{what} {registered}")


def _with_settings(kind: type, settings: Mapping[str, Any], what: str) -> type:
    """A class of a user's own whose fields are its settings, as they were given."""
    if not is_dataclass(kind):
        raise FedloomError(f"{what} '{kind.__name__}': write @dataclass above the class; its fields are its settings.")
    names = [item.name for item in fields(kind)]
    strange = [key for key in settings if key not in names]
    if strange:
        raise unknown(f"key in {what} {kind.__name__}:", strange[0], names)
    return kind


def name_of(part: Any, known: Mapping[str, Any]) -> str:
    """The name under which a selector or a stage is found again."""
    kind = type(part)
    return next((name for name, made in known.items() if made is kind), user_class_name(kind))


def override(values: dict[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """The values with ``a.b=c`` settings applied; c is read as TOML, or as a string if it is none."""
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            raise FedloomError(f"--set {setting}: write it as key=value, for instance local.lr=0.05.")
        set_nested(values, path.strip(), toml_value(text), f"--set {setting}")
    return values


def as_plain(config: RunConfig, algorithm: Algorithm) -> dict[str, Any]:
    """The complete config as nested plain values: defaults written out, nothing left to guess."""
    values: dict[str, Any] = _without_none(config.model_dump(mode="python", exclude={"selection", "personal"}))
    values["selection"] = _named(config.selection, SELECTORS)
    values["personal"] = [_named(stage, STAGES) for stage in config.personal]
    values["method"] = {"name": config.method["name"], **_without_none(hyperparameters(algorithm))}
    return values


def _named(part: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = _without_none(hyperparameters(part))
    return {"name": name_of(part, known), **settings}


def hyperparameters(algorithm: Any) -> dict[str, Any]:
    """The constructor arguments of a method, a selector or a stage, as plain values."""
    return asdict(algorithm) if is_dataclass(algorithm) and not isinstance(algorithm, type) else {}


def to_toml(values: Mapping[str, Any]) -> bytes:
    """Plain values as TOML."""
    return tomli_w.dumps(dict(values)).encode()


def _without_none(value: Any) -> Any:
    """TOML has no null: what is None is left out, which means the same."""
    if isinstance(value, Mapping):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return value
