"""The schema of a run's configuration, and a configuration as plain values.

``resolve`` (``config/resolve.py``) makes one: it fills in every default. An unknown key, a wrong type or an
impossible value ends in one sentence with the key's path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from fedloom.aggregation.mean import Mean
from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.channel.downlink import Downlink
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError, unknown
from fedloom.core.local_work import LocalWork
from fedloom.core.model.sub_models import FederatedDropout
from fedloom.data.changes.class_stream import ClassStream, require_stream_table
from fedloom.data.changes.communal_set import Communal, communal_table
from fedloom.data.changes.concept_drift import Drift
from fedloom.data.changes.server_set import ServerSet, server_table
from fedloom.data.changes.withheld_class import Withhold
from fedloom.engines import ENGINES
from fedloom.metrics.make_metrics import metric_list
from fedloom.privacy.sample_privacy import SamplePrivacy
from fedloom.registry.kinds import PARTITIONS, PARTS
from fedloom.registry.plain_values import hyperparameters, without_none
from fedloom.registry.validation import validate
from fedloom.rounds.early_stopping import EarlyStopping
from fedloom.selection.random import Random
from fedloom.tasks.builder import TaskSettings
from fedloom.training.execution import EXECUTIONS

DEFAULT_TASK = "digits"
DEFAULT_ROUNDS = 20


class Strict(BaseModel):
    """A section that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskConfig(Strict):
    """Data and model. ``name`` is a task of ``fedloom list tasks`` or ``own``, with ``path`` naming the file."""

    name: str = DEFAULT_TASK
    path: str | None = None
    target: str = TaskSettings.target
    client_column: str = TaskSettings.client_column
    group_column: str | None = None
    ignore: list[str] = []
    clients: int | None = None
    partition: dict[str, Any] | str | None = None
    test_share: float = TaskSettings.test_share
    valid_share: float = TaskSettings.valid_share
    communal_per_class: int = TaskSettings.communal_per_class
    communal: Annotated[Communal | None, BeforeValidator(communal_table)] = None
    """Samples that the server and all clients may see: a share of the training data, or a file."""
    server_set: Annotated[ServerSet | None, BeforeValidator(server_table)] = None
    """Samples that only the server has: a share of the training data, another data set, or a file."""
    label_share: float | None = None
    """The share of each client's training samples that have a label."""
    stream: Annotated[ClassStream | None, BeforeValidator(require_stream_table)] = None
    """The tasks in which clients meet the classes."""
    model: str | None = None
    model_options: dict[str, Any] = {}
    models: dict[str, Any] = {}
    """The clients' models, where they differ, and who has which; ``model`` is then the server's."""
    augment: bool = TaskSettings.augment
    withhold: Withhold | None = None
    drift: Drift | None = None
    options: dict[str, Any] = {}
    """Settings that only this kind of task has, for instance which label a flow task predicts."""
    kind: Literal["classes", "number", "labels", "tokens"] | None = None
    """What the targets of your own data are, where their values do not show it."""
    loss: str | dict[str, Any] | None = None
    """What models are trained by; None is the usual loss of the targets."""
    metrics: Annotated[list[str | dict[str, Any]], BeforeValidator(metric_list)] = []
    """What models are measured by; the first is the task's score. None: the objective's score, accuracy."""
    seed: int | None = None
    """The seed of the partition and of the initial model; the run's seed by default."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_settings_of_partitions(cls, values: Any) -> Any:
        """Say where ``alpha`` belongs: no key of this section is like it."""
        for key in set(values) - set(cls.model_fields) if isinstance(values, Mapping) else ():
            owners = [name for name, kind in PARTITIONS.items() if key in {one.name for one in fields(kind)}]
            if owners:
                raise FedloomError(
                    f"unknown key task.{key}: it is a setting of the partition, so set task.partition.{key}, and "
                    f'task.partition.name = "{owners[0]}".'
                )
        return values


class RunConfig(Strict):
    """All settings of a run. ``workers``, ``engine`` and ``checkpoint_every`` never change a result."""

    rounds: int = DEFAULT_ROUNDS
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
    local: LocalWork = LocalWork()
    sample_privacy: SamplePrivacy | None = None
    """Clients train by DP-SGD, which protects each of their samples, also from the server."""
    selection: Any = Random()
    aggregation: Any = Mean()
    server_optimizer: ServerOptimizer | None = None
    channel: list[Any] = []
    downlink: Downlink | None = None
    """How models go down to clients; as they are by default."""
    federated_dropout: FederatedDropout | None = None
    """Clients train sub-models, some units of every hidden layer."""
    adversary: Any = None
    prediction: list[Any] = []
    new_clients: int = 0
    early_stopping: EarlyStopping | None = None
    start_from: str | None = None
    """A run's folder, a saved model's, or a .safetensors file: the initial model, instead of a random one."""
    made_by: dict[str, str] = {}

    @property
    def clients_add_noise(self) -> bool:
        """Whether clients protect what they send by noise of their own."""
        return self.sample_privacy is not None or any(step.covers_replies for step in self.channel)

    def check(self) -> RunConfig:
        """The same config; an impossible value is an error."""
        for name in ("rounds", "workers", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise FedloomError(f"{name}={getattr(self, name)}: it must be at least 1.")
        if self.new_clients < 0:
            raise FedloomError(f"new_clients={self.new_clients}: it must not be negative.")
        if self.eval_every < 0:
            raise FedloomError(f"eval_every={self.eval_every}: use 0 for never, or a number of rounds.")
        if self.eval_clients is not None and self.eval_clients < 1:
            raise FedloomError(f"eval_clients={self.eval_clients}: it must be at least 1.")
        if self.task.clients is not None and self.task.clients < 1:
            raise FedloomError(f"clients={self.task.clients}: a federation needs at least one client.")
        for name in ("test_share", "valid_share"):
            if not 0 <= getattr(self.task, name) < 1:
                raise FedloomError(f"task.{name}={getattr(self.task, name)}: a share is at least 0 and less than 1.")
        if not callable(self.selection):
            raise FedloomError(f"selection={self.selection!r}: a selector needs a method __call__(self, pool).")
        if self.execution not in EXECUTIONS:
            raise unknown("execution", self.execution, EXECUTIONS)
        self._check_engine()
        return self

    def _check_engine(self) -> None:
        if self.engine not in ("auto", *ENGINES):
            raise unknown("engine", self.engine, ("auto", *ENGINES))
        if self.engine == "inline" and self.workers > 1:
            raise FedloomError(f"engine=inline has one process: use workers=1, or engine=processes for {self.workers}.")
        if self.ray_address is None:
            return
        if self.engine != "ray":
            raise FedloomError(
                f"ray_address={self.ray_address} is for engine=ray, but engine is {self.engine}: leave one out."
            )
        if self.ray_address != "auto" and not re.fullmatch(r"[^/\s]+:\d{1,5}", self.ray_address):
            raise FedloomError(f"ray_address={self.ray_address}: write host:port, for instance 10.0.0.5:6379, or auto.")


def with_task_section(config: RunConfig, section: Mapping[str, Any]) -> RunConfig:
    """The config with another section ``task``; its seed is left out if it is the run's."""
    kept = {key: value for key, value in section.items() if key != "seed" or value != config.seed}
    return config.model_copy(update={"task": validate(TaskConfig, kept, "the section task")})


def as_plain(config: RunConfig, algorithm: Algorithm) -> dict[str, Any]:
    """The config as nested plain values, with the settings of the method that runs."""
    values: dict[str, Any] = without_none(config.model_dump(mode="python", exclude={kind.key for kind in PARTS}))
    values |= without_none({kind.key: kind.plain(getattr(config, kind.key)) for kind in PARTS})
    values["method"] = {"name": config.method["name"], **without_none(hyperparameters(algorithm))}
    return values


def to_toml(values: Mapping[str, Any]) -> bytes:
    """Plain values as TOML."""
    try:
        return tomli_w.dumps(dict(values)).encode()
    except TypeError as error:
        raise FedloomError(f"these settings cannot be written to a file ({error}): give plain values.") from None
