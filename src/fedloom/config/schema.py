"""The schema of a run's configuration, and a configuration as plain values.

``resolve`` (``config/resolve.py``) makes one: it fills in every default. An unknown key, a wrong type or an
impossible value ends in one sentence with the key's path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import tomli_w
from pydantic import BaseModel, ConfigDict

from fedloom.aggregation.mean import Mean
from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.channel.downlink import Downlink
from fedloom.config.settings import RunSettings
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError, unknown
from fedloom.core.local_work import LocalWork
from fedloom.core.model.sub_models import FederatedDropout
from fedloom.engines import ENGINES
from fedloom.privacy.sample_privacy import SamplePrivacy
from fedloom.registry.kinds import PARTS
from fedloom.registry.plain_values import hyperparameters, without_none
from fedloom.registry.setting import Setting
from fedloom.registry.validation import validate
from fedloom.rounds.early_stopping import EarlyStopping
from fedloom.selection.random import Random
from fedloom.tasks.settings import TaskSection
from fedloom.training.execution import EXECUTIONS


class Strict(BaseModel):
    """A section that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RunConfig(RunSettings, Strict):
    """All settings of a run: single values (``config/settings.py``), and the sections and parts below."""

    task: Annotated[TaskSection, Setting("Data and model: the settings of a task.")] = TaskSection()
    method: Annotated[dict[str, Any], Setting("The method and its settings, of `fedloom list methods`.")] = {
        "name": "fedavg"
    }
    local: Annotated[LocalWork, Setting("What a client does between receiving a model and answering.")] = LocalWork()
    sample_privacy: Annotated[
        SamplePrivacy | None,
        Setting("Clients train by DP-SGD, which protects each of their samples, also from the server."),
    ] = None
    selection: Annotated[Any, Setting("Who takes part in a round, of `fedloom list selectors`.")] = Random()
    aggregation: Annotated[
        Any, Setting("How replies become one, of `fedloom list aggregators`; several in a list act in turn.")
    ] = Mean()
    server_optimizer: Annotated[ServerOptimizer | None, Setting("How the server uses the mean of the replies.")] = None
    channel: Annotated[
        list[Any], Setting("What is done to updates on their way to the server, in order: `fedloom list channels`.")
    ] = []
    downlink: Annotated[Downlink | None, Setting("How models go down to clients.", usual="as they are")] = None
    federated_dropout: Annotated[
        FederatedDropout | None, Setting("Clients train sub-models, some units of every hidden layer.")
    ] = None
    adversary: Annotated[Any, Setting("Clients that attack, of `fedloom list attacks`.")] = None
    prediction: Annotated[
        list[Any], Setting("Stages between training and prediction, in order: `fedloom list stages`.")
    ] = []
    early_stopping: Annotated[
        EarlyStopping | None, Setting("When to stop before the last round, by the clients' validation data.")
    ] = None
    made_by: dict[str, str] = {}

    @property
    def clients_add_noise(self) -> bool:
        """Whether clients protect what they send by noise of their own."""
        return self.sample_privacy is not None or any(step.covers_replies for step in self.channel)

    def check(self) -> RunConfig:
        """The same config; parts and names that do not go together are an error."""
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


def with_settings(config: RunConfig, changes: Mapping[str, Any], where: str = "") -> RunConfig:
    """The config with other settings, which are checked as those of a file are.

    Args:
        changes: The new values by their keys.
        where: What an error calls them; empty for arguments of a call.
    """
    changed: RunConfig = validate(RunConfig, {**dict(config), **changes}, where)
    return changed.check()


def with_task_section(config: RunConfig, section: Mapping[str, Any]) -> RunConfig:
    """The config with another section ``task``; its seed is left out if it is the run's."""
    kept = {key: value for key, value in section.items() if key != "seed" or value != config.seed}
    return config.model_copy(update={"task": validate(TaskSection, kept, "the section task")})


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
