"""Several methods on the same data with the same seeds, in a folder that can be stopped and gone on with.

``comparison.toml`` says what is compared; each run has a folder of its own. A run that is finished is read, one that
was stopped goes on, one that is missing is started: starting and resuming a comparison are the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedloom.algorithms.registry import find
from fedloom.errors import FedloomError
from fedloom.runs.api import completed, label_of, load_config, make_task, method_from, with_method
from fedloom.runs.checkpoint import write_whole
from fedloom.runs.config import parse, read, to_toml
from fedloom.runs.history import History
from fedloom.runs.runner import Observer, execute, prepare, resume

Watch = Callable[[str, int], Sequence[Observer]]
"""Observers for the run of a method with a seed."""

PLAN = "comparison.toml"


def begin_comparison(folder: Path, values: dict[str, Any], methods: Sequence[str], seeds: int) -> None:
    """Write down what is to be compared, after checking all of it."""
    if (folder / PLAN).exists() or (folder / "config.toml").exists():
        raise FedloomError(f"{folder} already holds a comparison or a run: resume it, or name another folder.")
    methods = [label_of(spec) for spec in methods]
    if len(set(methods)) < len(methods):
        raise FedloomError(f"a method is named twice in {' '.join(methods)}: name each once.")
    if seeds < 1:
        raise FedloomError(f"seeds={seeds}: at least one is needed.")
    config = parse({key: value for key, value in values.items() if key != "method"})
    task = make_task(config)
    for spec in methods:
        prepare(task, method_from(spec), completed(parse(with_method(values, spec))))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / PLAN, to_toml({"methods": list(methods), "seeds": seeds, "config": values}))
    except OSError as error:
        raise FedloomError(f"{folder} cannot be written ({error.strerror}): name another folder.") from None


def continue_comparison(folder: Path, watch: Watch, workers: int | None = None) -> dict[str, list[History]]:
    """Do whatever is left to do, seed by seed, so that all methods of a seed share one task in memory."""
    plan = read(folder / PLAN)
    results: dict[str, list[History]] = {spec: [] for spec in plan["methods"]}
    first = int(plan["config"].get("seed", 0))
    for seed in range(first, first + plan["seeds"]):
        values = {**plan["config"], "seed": seed}
        task = None
        for spec in plan["methods"]:
            where = folder / f"{_file_name(spec)}-seed{seed}"
            if finished(where):
                results[spec].append(History.load(where))
                continue
            begun = (where / "config.toml").exists()
            config = load_config(where) if begun else parse(with_method(values, spec))
            if workers is not None:
                config = config.model_copy(update={"workers": workers})
            task = task or make_task(config)
            prepared = prepare(task, method_from(spec), completed(config))
            observers = watch(spec, seed)
            results[spec].append((resume if begun else execute)(prepared, where, observers))
    return results


def finished(folder: Path) -> bool:
    """Whether a run's folder has all it will ever have."""
    return (folder / "clients.json").exists()


def histories(folders: Sequence[Path]) -> dict[str, list[History]]:
    """The runs below some folders, by method: runs, comparisons, or folders of runs."""
    found: dict[str, list[History]] = {}
    for folder in folders:
        plan = read(folder / PLAN) if (folder / PLAN).exists() else {"methods": []}
        labels = {_file_name(spec): spec for spec in plan["methods"]}
        inside = sorted(path.parent for path in folder.glob("*/config.toml"))
        for run in [folder] if (folder / "config.toml").exists() else inside:
            history = History.load(run)
            label = labels.get(run.name.rpartition("-seed")[0]) or _label(history)
            found.setdefault(label, []).append(history)
    if not found:
        raise FedloomError(f"there is no run in {', '.join(map(str, folders))}: name a run's folder or a comparison's.")
    return {label: found[label] for label in sorted(found)}


def _label(history: History) -> str:
    """The method and the settings in which it differs from its defaults, so that two settings are never pooled."""
    settings = dict(history.config["method"])
    kind = find(str(settings.pop("name")))
    return label_of(method_from(history.label, settings)) if kind.__name__.lower() == history.label else history.label


def _file_name(spec: str) -> str:
    return "".join(c if c.isalnum() or c in "-_.=," else "_" for c in spec)
