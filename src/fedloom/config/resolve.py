"""The one path from values to a run's configuration: ``resolve`` fills in every default.

``fl.run``, the command line, comparisons, sweeps, advice, deployment and resuming all go through it, so the same values
are the same run wherever they come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from fedloom.config.method_spec import method_from, with_method
from fedloom.config.python_objects import refuse_to_run
from fedloom.config.schema import RunConfig, with_task_section
from fedloom.config.training_code import with_named_code
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import OPTIMIZER_SETTINGS, OPTIMIZERS, LocalWork
from fedloom.core.task import Task
from fedloom.registry.kinds import METHODS, PARTITIONS, PARTS, TASKS
from fedloom.registry.nested_keys import set_nested
from fedloom.registry.user_classes import resolve_user_file
from fedloom.registry.validation import read_toml, toml_value, validate
from fedloom.tasks.builder import TaskSettings, task_builder
from fedloom.tasks.settings import DEFAULT_TASK, TaskSection
from fedloom.tasks.task import build_task

CHANGEABLE = ("local", "method", "selection", "aggregation", "weight_by", "eval_every", "eval_clients")
"""Settings that a run may change on its way; the data, the seed and the parts that hold state may not."""


def resolve(values: Mapping[str, Any], where: str = "the configuration", *, task: Task | None = None) -> RunConfig:
    """The complete configuration of a run.

    Args:
        values: Any of the keys of a config, nested. ``method`` is a spec (``fedprox:mu=0.1``) or a section with a
            name; the parts of a run (``registry/kinds.py``) are names, sections or objects.
        where: What an error calls the values, for instance the path of their file.
        task: The task object, where the section ``task`` does not build it. Its section then stays as it is.

    Returns:
        The config with every default of its task filled in, names in their usual spelling and absolute paths.
    """
    values = _with_split_spec(values)
    parts = {kind.key: kind.make(values.get(kind.key), where) for kind in PARTS}
    parts["local"] = _with_task_defaults(with_named_code(values.get("local")), values.get("task"))
    if "server_optimizer" in values:
        parts["server_optimizer"] = with_named_code(values["server_optimizer"])
    if isinstance(values.get("start_from"), str | Path):
        parts["start_from"] = str(Path(values["start_from"]).expanduser().resolve())
    weights = {"weight_by": "uniform"} if getattr(parts["selection"], "draws_by_size", False) else {}
    _refuse_settings_of_partitions(values.get("task"))
    config: RunConfig = validate(RunConfig, {**weights, **values, **parts}, where)
    config.check()
    _check_seeds(config, where)
    return config if task is not None else _with_complete_task(config)


def _refuse_settings_of_partitions(task: Any) -> None:
    """Say where ``alpha`` belongs: no key of the section ``task`` is like it."""
    known = {one.name for one in fields(TaskSection)}
    for key in task if isinstance(task, Mapping) else ():
        owners = [] if key in known else [name for name, kind in PARTITIONS.items() if key in _field_names(kind)]
        if owners:
            raise FedloomError(
                f"unknown key task.{key}: it is a setting of the partition, so set task.partition.{key}, and "
                f'task.partition.name = "{owners[0]}".'
            )


def _field_names(kind: Any) -> set[str]:
    return {one.name for one in fields(kind)}


def _check_seeds(config: RunConfig, where: str) -> None:
    """Refuse a negative seed: elsewhere it often means a random one. A run that has begun keeps its seed."""
    for key, seed in {"seed": config.seed, "task.seed": config.task.seed}.items():
        if seed is not None and seed < 0 and not config.made_by:
            raise FedloomError(f"{key}={seed} in {where}: a seed is 0 or more, and the same one gives the same bytes.")


def _with_split_spec(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the method as a section, its name in its usual spelling, its file with an absolute path."""
    given = values.get("method", {"name": "fedavg"})
    section = {"name": given} if isinstance(given, str) else given
    if not isinstance(section, Mapping) or not isinstance(section.get("name"), str):
        return dict(values)  # validation, or making the method, says what is wrong
    settings = {key: value for key, value in section.items() if key != "name"}
    values = with_method({**values, "method": settings}, section["name"])
    name = resolve_user_file(METHODS.canonical(values["method"]["name"]))
    return {**values, "method": {**values["method"], "name": name}}


def _with_task_defaults(local: Any, task: Any) -> Any:
    """Local work with the task's usual settings below the given ones: a learning rate alone keeps the batch size."""
    if local is not None and not isinstance(local, Mapping):
        return local
    name = str(task.get("name", DEFAULT_TASK)) if isinstance(task, Mapping) else DEFAULT_TASK
    builder = TASKS.get(TASKS.canonical(name))
    usual = asdict(builder.local) if builder is not None else {}
    given = dict(local or {})
    if usual and given.get("optimizer", usual["optimizer"]) != usual["optimizer"]:
        usual = _of_other_optimizer(usual, given["optimizer"])
    return {**usual, **given}


def _of_other_optimizer(usual: dict[str, Any], optimizer: Any) -> dict[str, Any]:
    """A task's usual settings without those that another optimiser does not have, or has defaults of its own for."""
    standard = asdict(LocalWork(optimizer=usual["optimizer"]))
    dropped = [
        name
        for name in OPTIMIZER_SETTINGS
        if name not in OPTIMIZERS.get(str(optimizer), ()) or usual[name] == standard[name]
    ]
    return {name: value for name, value in usual.items() if name not in dropped}


def _with_complete_task(config: RunConfig) -> RunConfig:
    complete = task_builder(config.task.name).complete(task_settings(config).with_named_model())
    return with_task_section(config, complete.section(complete.clients))


def override(values: dict[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """The values with ``a.b=c`` settings applied; ``c`` is read as TOML, or as text if it is not a TOML value."""
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            raise FedloomError(f"--set {setting}: write it as key=value, for instance local.lr=0.05.")
        set_nested(values, path.strip(), toml_value(text), f"--set {setting}")
    return values


def change_settings(values: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A config's values with other settings; those that would make it another run are refused.

    Args:
        settings: The new values by their dotted keys, for instance ``local.lr``.
    """
    for key, value in settings.items():
        section = key.split(".")[0]
        if section not in CHANGEABLE or key in CHANGEABLE[:4] or key.endswith(".name"):
            raise FedloomError(
                f"{key}={value}: a run that continues from an earlier round may only change settings of "
                f"{', '.join(CHANGEABLE)}, and no names: start a new run instead."
            )
        set_nested(values, key, value, f"{key}={value}")
    return values


def read_run_file(path: Path) -> dict[str, Any]:
    """The values of a run file; one that lacks Python objects is refused."""
    values = read_toml(path)
    refuse_to_run(values, str(path))
    return values


def task_settings(config: RunConfig) -> TaskSettings:
    """The settings of a config's task; its seed is the run's unless it has one of its own."""
    values = {one.name: getattr(config.task, one.name) for one in fields(config.task)}
    seed = config.seed if config.task.seed is None else config.task.seed
    return TaskSettings(**{**values, "name": TASKS.canonical(config.task.name), "seed": seed})


def task_from_config(config: RunConfig) -> Task:
    """The task that a config names."""
    return build_task(task_settings(config))


def method_from_config(config: RunConfig) -> Algorithm:
    """The method that a config names."""
    settings = dict(config.method)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise FedloomError("method.name is missing: name a method, for instance fedavg (see fedloom list methods).")
    return method_from(name, settings)
