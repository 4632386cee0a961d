"""A run's configuration: complete, checked, and the same in TOML, on the command line and in Python.

An unknown key, a wrong type or an impossible value ends in one sentence with the key's path.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from fedloom.aggregation import ServerOptimizer
from fedloom.core.algorithm import Algorithm
from fedloom.core.execution import EXECUTIONS
from fedloom.core.work import LocalWork
from fedloom.errors import FedloomError, unknown
from fedloom.selection import Random


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
    model: str | None = None
    model_options: dict[str, Any] = {}
    augment: bool = False
    seed: int | None = None
    """The seed of the partition and of the initial model, where it is not the run's."""


class RunConfig(Strict):
    """Everything that decides what a run computes, and a few things that do not (workers, checkpoint_every)."""

    rounds: int = 20
    seed: int = 0
    weight_by: Literal["samples", "steps", "uniform"] = "samples"
    execution: str = "auto"
    workers: int = 1
    eval_every: int = 1
    eval_clients: int | None = None
    checkpoint_every: int = 1
    size_groups: list[int] | None = None
    task: TaskConfig = TaskConfig()
    method: dict[str, Any] = {"name": "fedavg"}
    local: LocalWork | None = None
    selection: Random = Random()
    server_optimizer: ServerOptimizer | None = None
    made_by: dict[str, str] = {}

    def check(self) -> RunConfig:
        """The same config, or the sentence that says what is wrong with it."""
        for name in ("rounds", "workers", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise FedloomError(f"{name}={getattr(self, name)}: it must be at least 1.")
        if self.eval_every < 0:
            raise FedloomError(f"eval_every={self.eval_every}: use 0 for never, or a number of rounds.")
        if self.eval_clients is not None and self.eval_clients < 1:
            raise FedloomError(f"eval_clients={self.eval_clients}: score at least one client.")
        if self.task.clients is not None and self.task.clients < 1:
            raise FedloomError(f"clients={self.task.clients}: a federation needs at least one client.")
        for name in ("test_share", "valid_share"):
            if not 0 <= getattr(self.task, name) < 1:
                raise FedloomError(f"task.{name}={getattr(self.task, name)}: a share is at least 0 and less than 1.")
        if self.execution not in EXECUTIONS:
            raise unknown("execution", self.execution, EXECUTIONS)
        return self


def parse(values: Mapping[str, Any], where: str = "the configuration") -> RunConfig:
    """A checked config from nested values."""
    config: RunConfig = validated(RunConfig, values, where)
    return config.check()


def validated(kind: Any, values: Any, where: str) -> Any:
    """An object of a type from plain values, or one sentence that names the first thing wrong."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(step) for step in first["loc"])
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            section = _section(kind, first["loc"][:-1])
            raise unknown(f"key in {where}:", path, [*section]) from None
        got = repr(first.get("input"))[:60]
        raise FedloomError(f"{path}={got} in {where}: {first['msg'][0].lower()}{first['msg'][1:]}.") from None


def _section(kind: Any, loc: tuple[Any, ...]) -> Iterable[str]:
    prefix = "".join(f"{step}." for step in loc)
    for step in loc:
        kind = kind.model_fields[step].annotation if hasattr(kind, "model_fields") else kind
        kind = next((a for a in getattr(kind, "__args__", ()) if a is not type(None)), kind)
    names = list(kind.model_fields) if hasattr(kind, "model_fields") else [f.name for f in fields(kind)]
    return [prefix + name for name in names]


def read(path: str | Path) -> dict[str, Any]:
    """The values of a TOML file."""
    path = Path(path)
    if not path.is_file():
        raise FedloomError(f"there is no configuration file {path}: name an existing TOML file.")
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FedloomError(f"{path} is not valid TOML: {error}.") from None


def override(values: dict[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """The values with ``a.b=c`` settings applied; c is read as TOML, or as a string if it is none."""
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            raise FedloomError(f"--set {setting}: write it as key=value, for instance local.lr=0.05.")
        section = values
        *parents, leaf = path.strip().split(".")
        for parent in parents:
            section = section.setdefault(parent, {})
            if not isinstance(section, dict):
                raise FedloomError(f"--set {setting}: {parent} is a value, not a section.")
        section[leaf] = plain(text)
    return values


def plain(text: str) -> Any:
    """A value as TOML reads it, or the text itself."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def as_plain(config: RunConfig, algorithm: Algorithm) -> dict[str, Any]:
    """The complete config as nested plain values: defaults written out, nothing left to guess."""
    values: dict[str, Any] = _without_none(config.model_dump(mode="python"))
    values["method"] = {"name": config.method["name"], **_without_none(hyperparameters(algorithm))}
    return values


def hyperparameters(algorithm: Algorithm) -> dict[str, Any]:
    """A method's constructor arguments, as plain values."""
    return asdict(algorithm) if is_dataclass(algorithm) else {}


def to_toml(values: Mapping[str, Any]) -> bytes:
    """Plain values as TOML."""
    return tomli_w.dumps(dict(values)).encode()


def _without_none(value: Any) -> Any:
    """TOML has no null: what is None is left out, which means the same."""
    if isinstance(value, Mapping):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return value
