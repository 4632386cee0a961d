"""The way in from Python and from the command line: run, compare, resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fedloom
from fedloom.algorithms.registry import canonical, find
from fedloom.core.algorithm import Algorithm
from fedloom.core.task import Task
from fedloom.core.work import LocalWork
from fedloom.errors import FedloomError
from fedloom.runs.config import RunConfig, parse, plain, read, validated
from fedloom.runs.history import History
from fedloom.runs.runner import Observer, execute, prepare
from fedloom.runs.runner import resume as resume_prepared
from fedloom.tasks import TASKS, task, task_kind, task_of


def method_from(spec: str | Algorithm, options: Mapping[str, Any] | None = None) -> Algorithm:
    """A method from its name (``"fedprox"``), a name with settings (``"fedprox:mu=0.1"``), or itself."""
    if isinstance(spec, Algorithm):
        return spec
    name, settings = split_method(spec)
    made: Algorithm = validated(find(name), {**(options or {}), **settings}, f"method {name}")
    return made


def split_method(spec: str) -> tuple[str, dict[str, Any]]:
    """``fedprox:mu=0.1,adaptive=true`` as a name and settings; ``file.py:Class`` has none."""
    head, _, tail = spec.rpartition(":")
    if not head or "=" not in tail:
        return spec, {}
    pairs = [pair.partition("=") for pair in tail.split(",")]
    return head, {key.strip(): plain(value.strip()) for key, _, value in pairs}


def run(
    task: Task,
    method: str | Algorithm = "fedavg",
    *,
    rounds: int = 20,
    seed: int = 0,
    out: str | Path | None = None,
    local: LocalWork | Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
    **settings: Any,
) -> History:
    """Train a task with a method and return what was measured.

    ``local`` is the local work (a ``LocalWork`` or some of its fields; the task's own by default), ``out`` a folder for
    the run, and ``settings`` any other key of a run's config: ``selection={"fraction": 0.1}``, ``workers=2``,
    ``weight_by="uniform"``, ``server_optimizer={"kind": "yogi"}``, ``execution="loop"``, ``eval_every=5`` ...
    """
    algorithm = method_from(method)
    if not isinstance(local, LocalWork):
        local = validated(LocalWork, {**_task_work(task.name), **(local or {})}, "local")
    name = method if isinstance(method, str) else type(method).__name__.lower()
    values = {
        "rounds": rounds,
        "seed": seed,
        "local": local,
        "task": {"name": task.name, "clients": task.federation.clients},
        "method": {"name": split_method(name)[0] if ":" in name else canonical(name)},
        **settings,
    }
    prepared = prepare(task, algorithm, parse(values, "the run's settings"))
    return execute(prepared, Path(out) if out is not None else None, observers)


def compare(
    task: Task | Callable[[int], Task],
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
        label = spec if isinstance(spec, str) else type(spec).__name__.lower()
        for seed in range(seeds):
            this = task if isinstance(task, Task) else task(seed)
            where = None if out is None else Path(out) / f"{label.replace('/', '_')}-seed{seed}"
            results.setdefault(label, []).append(run(this, spec, seed=seed, out=where, **settings))
    return results


def resume(
    folder: str | Path, *, task: Task | None = None, workers: int | None = None, observers: Sequence[Observer] = ()
) -> History:
    """Go on with a stopped run. ``task`` is only needed when it was not made from a config."""
    folder = Path(folder)
    config = load_config(folder)
    if workers is not None:
        config = config.model_copy(update={"workers": workers})
    config = with_local_work(config)
    return resume_prepared(prepare(task or make_task(config), method_of(config), config), folder, observers)


def load_config(folder: Path) -> RunConfig:
    """The config of a run's folder, refused when another version made it."""
    if not (folder / "config.toml").is_file():
        raise FedloomError(f"{folder} is not a run's folder: it has no config.toml.")
    values = read(folder / "config.toml")
    made_by = values.get("made_by", {}).get("fedloom", "an unknown version")
    if made_by != fedloom.__version__:
        raise FedloomError(
            f"{folder} was made by fedloom {made_by} and this is {fedloom.__version__}: only the version that began a "
            "run can finish it to the same bytes; install that one, or start anew with its config.toml."
        )
    return parse(values, str(folder / "config.toml"))


def with_local_work(config: RunConfig) -> RunConfig:
    """The config with the task's own local work where it names none."""
    if config.local is not None:
        return config
    default = LocalWork() if config.task.name == "own" else task_kind(config.task.name).local
    return config.model_copy(update={"local": default})


def make_task(config: RunConfig) -> Task:
    """The task that a config names."""
    chosen = config.task
    if chosen.name == "own":
        return _own_task(config)
    return task(
        chosen.name,
        clients=chosen.clients,
        partition=chosen.partition,
        model=chosen.model,
        model_options=chosen.model_options,
        test_share=chosen.test_share,
        valid_share=chosen.valid_share,
        augment=chosen.augment,
        seed=config.seed,
    )


def _own_task(config: RunConfig) -> Task:
    from fedloom.data.own import own

    chosen = config.task
    if chosen.path is None:
        raise FedloomError("task 'own' needs the path of your data: give --data FILE, or task.path in the config.")
    federation = own(
        chosen.path,
        target=chosen.target,
        client=chosen.client_column,
        clients=chosen.clients,
        partition=chosen.partition,
        seed=config.seed,
        test_share=chosen.test_share,
        valid_share=chosen.valid_share,
    )
    return task_of(federation, chosen.model or "mlp", seed=config.seed, model_options=chosen.model_options)


def _task_work(name: str) -> dict[str, Any]:
    return asdict(TASKS[name].local) if name in TASKS else {}


def method_of(config: RunConfig) -> Algorithm:
    """The method that a config names."""
    options = dict(config.method)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise FedloomError("method.name is missing: name a method, for instance fedavg (see fedloom list methods).")
    return method_from(name, options)
