"""The way in from Python and from the command line: run, compare, resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import fedloom
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.nested import flatten
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.task import Task
from fedloom.core.validation import read_toml, validate
from fedloom.methods.registry import canonical_method, make_method, split_method
from fedloom.prediction.registry import canonical_stage
from fedloom.runs.config import RunConfig, parse
from fedloom.runs.history import History
from fedloom.runs.runner import Observer, execute, prepare
from fedloom.runs.runner import resume as resume_prepared
from fedloom.tasks.builder import TaskSettings
from fedloom.tasks.registry import TASKS, canonical_task, task_builder
from fedloom.tasks.task import build_task
from fedloom.tasks.task import task as make


def method_from(spec: str | Algorithm | type[Algorithm], options: Mapping[str, Any] | None = None) -> Algorithm:
    """A method from its name (``"fedprox"``), a name with settings (``"fedprox:mu=0.1"``), or itself."""
    if isinstance(spec, type) and issubclass(spec, Algorithm):
        return spec()
    if isinstance(spec, str):
        name, settings = split_method(split_stages(spec)[0])
        return make_method({"name": name, **(options or {}), **settings})
    return spec


def label_of(spec: str | Algorithm | PredictionStage) -> str:
    """What a method (or a stage) is called in a comparison: its name and the settings that are not the default."""
    if isinstance(spec, str):
        method, *stages = (split_method(part) for part in [split_stages(spec)[0], *spec.split("+")[1:]])
        first = _written(canonical_method(method[0]), method[1])
        return "+".join([first, *(_written(canonical_stage(name), given) for name, given in stages)])
    given = {f.name: getattr(spec, f.name) for f in fields(spec) if getattr(spec, f.name) != f.default}
    return _written(type(spec).__name__.lower(), given)


def _written(name: str, settings: Mapping[str, Any]) -> str:
    return ":".join([name, ",".join(f"{key}={value}" for key, value in flatten(settings))]).rstrip(":")


def split_stages(spec: str) -> tuple[str, list[dict[str, Any]]]:
    """``fedavg+fedpredict+finetune:epochs=2`` as a method and the stages behind it."""
    method, *stages = spec.split("+")
    parts = [split_method(stage) for stage in stages]
    return method, [{"name": name, **settings} for name, settings in parts]


def with_method(values: Mapping[str, Any], spec: str) -> dict[str, Any]:
    """A config's values with a method, and the stages behind it, as written on the command line."""
    method, stages = split_stages(spec)
    name, settings = split_method(method)
    given = values.get("method", {})
    kept = given if given.get("name") in (None, name) else {}
    personal = _followed(values.get("personal", []), stages)
    return {**values, "method": {**kept, "name": name, **settings}, "personal": personal}


def _followed(given: Any, stages: list[dict[str, Any]]) -> Any:
    """Stages with more behind them; what is no list of stages stays as it is, to be refused as such."""
    return [*given, *stages] if isinstance(given, list | tuple) else given


def run(
    task: Task | str,
    method: str | Algorithm = "fedavg",
    *,
    rounds: int = 20,
    seed: int = 0,
    out: str | Path | None = None,
    local: LocalWork | Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
    **settings: Any,
) -> History:
    """Train a task (or a named task with its defaults) with a method and return what was measured.

    ``local`` is the local work (a ``LocalWork`` or some of its fields; the task's own by default), ``out`` a folder for
    the run, and ``settings`` any other key of a run's config: ``selection={"fraction": 0.1}``, ``workers=2``,
    ``weight_by="uniform"``, ``server_optimizer={"kind": "yogi"}``, ``execution="loop"``, ``eval_every=5`` ...
    """
    task = make(task, seed=seed) if isinstance(task, str) else task
    if isinstance(method, str):
        method, stages = split_stages(method)
        settings = {**settings, "personal": _followed(settings.get("personal", []), stages)}
    algorithm = method_from(method)
    if not isinstance(local, LocalWork):
        local = validate(LocalWork, local_values(task.name, local or {}), "local")
    name = canonical_method(split_method(method)[0]) if isinstance(method, str) else type(algorithm).__name__.lower()
    values = {
        "rounds": rounds,
        "seed": seed,
        "local": local,
        "task": dict(task.made_from) or {"name": task.name, "clients": task.federation.clients},
        "method": {"name": name},
        **settings,
    }
    prepared = prepare(task, algorithm, parse(values, "the run's settings"))
    return execute(prepared, Path(out) if out is not None else None, observers)


def compare(
    task: Task | str | Callable[[int], Task],
    methods: Sequence[str | Algorithm],
    *,
    seeds: int = 1,
    out: str | Path | None = None,
    **settings: Any,
) -> dict[str, list[History]]:
    """Run several methods on the same data with the same seeds; the result maps each to a history per seed.

    ``task`` may be a function of the seed, so that each seed has a partition and an initial model of its own. A method
    that diverges keeps what was measured, and the comparison goes on.
    """
    results: dict[str, list[History]] = {}
    for spec in methods:
        label = label_of(method_from(spec) if isinstance(spec, type) else spec)
        for seed in range(seeds):
            this = make(task, seed=seed) if isinstance(task, str) else task if isinstance(task, Task) else task(seed)
            where = None if out is None else Path(out) / f"{label.replace('/', '_')}-seed{seed}"
            results.setdefault(label, []).append(run(this, spec, seed=seed, out=where, **settings))
    return results


def task_values(task: Task | str | Callable[[int], Task]) -> tuple[dict[str, Any], Callable[[int], Task] | None]:
    """A task as a config's section and, where that does not make it again, as a function of the seed."""
    if isinstance(task, str):
        return {"name": task}, None
    if isinstance(task, Task) and task.made_from:
        return dict(task.made_from), None
    of_seed = (lambda _: task) if isinstance(task, Task) else task
    first = of_seed(0)
    return dict(first.made_from) or {"name": first.name, "clients": first.federation.clients}, of_seed


def resume(
    folder: str | Path,
    *,
    task: Task | None = None,
    method: Algorithm | None = None,
    workers: int | None = None,
    engine: str | None = None,
    ray_address: str | None = None,
    observers: Sequence[Observer] = (),
) -> History:
    """Go on with a stopped run. ``task`` and ``method`` are only needed where they are objects of one's own; where the
    rest is computed (``workers``, ``engine``, ``ray_address``) is free to change."""
    folder = Path(folder)
    config = load_config(folder)
    if engine is not None:
        config = config.model_copy(update={"engine": engine, "ray_address": None})
    changes = {"workers": workers, "ray_address": ray_address}
    config = config.model_copy(update={key: value for key, value in changes.items() if value is not None}).check()
    config = completed(config) if task is None else config  # a given task may have any name
    prepared = prepare(task or make_task(config), method or method_of(config), config)
    return resume_prepared(prepared, folder, observers)


def load_config(folder: Path) -> RunConfig:
    """The config of a run's folder, refused when another version made it."""
    if not (folder / "config.toml").is_file():
        raise FedloomError(f"{folder} is not a run's folder: it has no config.toml.")
    values = read_toml(folder / "config.toml")
    made_by = values.get("made_by", {}).get("fedloom", "an unknown version")
    if made_by != fedloom.__version__:
        raise FedloomError(
            f"{folder} was made by fedloom {made_by} and this is {fedloom.__version__}: only the version that began a "
            "run can finish it to the same bytes; install that one, or start anew with its config.toml."
        )
    return parse(values, str(folder / "config.toml"))


def completed(config: RunConfig) -> RunConfig:
    """The config with every default of its task and method written out, and paths that hold from any folder."""
    builder, name = task_builder(config.task.name), config.method.get("name")
    complete = builder.complete(task_settings(config))
    task_config = config.task.model_copy(
        update={"name": complete.name, "model": complete.model, "partition": complete.partition, "path": complete.path}
    )
    if isinstance(name, str):
        where, _, kind_name = name.rpartition(":")
        own_file = f"{Path(where).resolve()}:{kind_name}" if where.endswith(".py") else canonical_method(name)
        config = config.model_copy(update={"method": {**config.method, "name": own_file}})
    return config.model_copy(update={"task": task_config, "local": config.local or builder.local})


def task_settings(config: RunConfig) -> TaskSettings:
    """The settings of a config's task; its seed is the run's unless it has one of its own."""
    values = {name: getattr(config.task, name) for name in type(config.task).model_fields}
    seed = config.seed if config.task.seed is None else config.task.seed
    return TaskSettings(**values | {"name": canonical_task(config.task.name), "seed": seed})


def make_task(config: RunConfig) -> Task:
    """The task that a config names."""
    return build_task(task_settings(config))


def local_values(task_name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Local settings on top of the task's own, so that a learning rate alone does not lose the task's batch size."""
    kind = TASKS.get(canonical_task(task_name))
    usual = asdict(kind.local) if kind is not None else {}
    return {**{key: value for key, value in usual.items() if value is not None}, **given}


def complete_local(values: dict[str, Any]) -> dict[str, Any]:
    """A config's values, with the task's own local work below what they say of it."""
    if not isinstance(values.get("local"), Mapping):
        return values
    return {**values, "local": local_values(str(values.get("task", {}).get("name", "digits")), values["local"])}


def method_of(config: RunConfig) -> Algorithm:
    """The method that a config names."""
    options = dict(config.method)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise FedloomError("method.name is missing: name a method, for instance fedavg (see fedloom list methods).")
    return method_from(name, options)
