"""Several runs, however they are given, under one label per method: what a report or a figure is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedloom.core.arguments import list_from
from fedloom.core.errors import FedloomError
from fedloom.registry.nested_keys import flatten
from fedloom.runs.plans.compare import histories, label_with_settings
from fedloom.runs.results.history import History

Runs = History | Mapping[str, History | Sequence[History]] | str | Path | Sequence[History | str | Path]
"""A history, several histories, a comparison, or folders of runs or comparisons."""
SEED = ("seed", "task.seed", "made_by")
"""What differs between runs of one method with several seeds; a config names the seed of its data if it is another."""


def runs_by_label(runs: Runs) -> dict[str, list[History]]:
    """The runs of each method, one per seed, by a label that says in which settings they differ."""
    if isinstance(runs, Mapping):
        found = {label: [some] if isinstance(some, History) else list(some) for label, some in runs.items()}
    elif isinstance(runs, str | Path):
        found = histories([Path(runs)])
    else:
        found = {}
        for one in [runs] if isinstance(runs, History) else list_from("runs", runs, "'runs/first', 'runs/second'"):
            if isinstance(one, History):
                found.setdefault(label_with_settings(one), []).append(one)
            elif isinstance(one, str | Path):
                for label, some in histories([Path(one)]).items():
                    found.setdefault(label, []).extend(some)
            else:
                raise FedloomError(f"{one!r} is not a run: give histories, a comparison, or folders of runs.")
    if not found:
        raise FedloomError("there is no run to show: give at least one history or folder.")
    return {name: some for label, alike in found.items() for name, some in _apart(label, alike).items()}


def folders_of(runs: Runs) -> list[Path]:
    """The folders of some runs: of a comparison, or of each run that has one."""
    if isinstance(runs, str | Path):
        return [Path(runs)]
    folder = getattr(runs, "folder", None)
    if folder is not None or isinstance(runs, History | Mapping):
        return [] if folder is None else [folder]
    return [folder for one in runs for folder in folders_of(one)]


def _apart(label: str, runs: Sequence[History]) -> dict[str, list[History]]:
    """Runs of one method, with the settings in their labels in which they differ, besides the seed."""
    flat = [dict(flatten({key: value for key, value in run.config.items() if key not in SEED})) for run in runs]
    named = {key for config in flat for key in config if key not in SEED}
    keys = sorted(key for key in named if len({repr(one.get(key)) for one in flat}) > 1)
    found: dict[str, list[History]] = {}
    for run, config in zip(runs, flat, strict=True):
        settings = " ".join(f"{key}={config[key]}" for key in keys if key in config)
        found.setdefault(f"{label} {settings}".strip(), []).append(run)
    return found
