"""``fedloom list``: the available methods, tasks, models and other parts, generated from the code."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.registry.registry import Registry

REGISTRIES = {
    "methods": "METHODS",
    "tasks": "TASKS",
    "data": "DATASETS",
    "models": "MODELS",
    "partitions": "PARTITIONS",
    "selectors": "SELECTORS",
    "aggregators": "AGGREGATORS",
    "channels": "CHANNEL_STEPS",
    "attacks": "ATTACKS",
    "losses": "LOSSES",
    "metrics": "METRICS",
    "stages": "PREDICTION_STAGES",
}
"""The registry of each kind of part (``registry/kinds.py``)."""
KINDS = (*REGISTRIES, "engines", "executions", "weightings", "trackers")


def listing(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")] = "methods",
    as_json: o.Json = False,
) -> None:
    """List the available methods, tasks, models and other parts.

    KIND is one of: methods, tasks, data, models, partitions, selectors, aggregators, channels, attacks, losses,
    metrics, stages, engines, executions, weightings, trackers.

    Example:  fedloom list models
    """
    from fedloom.core.errors import unknown

    if kind not in KINDS:
        raise unknown("kind of thing", kind, KINDS)
    rows = _rows(kind)
    if as_json:
        say(json.dumps(rows))
        return
    from rich.table import Table
    from rich.text import Text

    from fedloom.cli.terminal.console import printer

    table = Table(title=kind, show_header=False)
    for row in rows:
        extra = ", ".join(f"{key}={value}" for key, value in row.get("settings", {}).items())
        package = f"  [package {row['package']}]" if "package" in row else ""
        table.add_row(row["name"], Text.assemble(row["about"], (f"  ({extra})", "dim") if extra else "", package))
    printer().print(table)


def _rows(kind: str) -> list[dict[str, Any]]:
    if kind not in REGISTRIES:
        return [{"name": name, "about": about} for name, about in _descriptions(kind).items()]
    from fedloom.registry import kinds

    registry = getattr(kinds, REGISTRIES[kind])
    return [_part_row(name, registry) for name in registry]


def _part_row(name: str, registry: Registry[Any]) -> dict[str, Any]:
    """What is shown of a part; one of a package names the package, also where it cannot be imported."""
    from fedloom.core.errors import FedloomError

    package = registry.package_of(name)
    if package is None:
        return _row(name, registry[name])
    try:
        return {**_row(name, registry[name]), "package": package}
    except FedloomError as error:
        return {"name": name, "about": str(error), "package": package}


def _row(name: str, part: Any) -> dict[str, Any]:
    """What is shown of a part, by what it is: a task, a data set, a model, or a class with settings."""
    from fedloom.data.datasets.dataset import Dataset
    from fedloom.models.model_kind import ModelKind

    if isinstance(part, Dataset):
        return {"name": name, "about": part.description, "licence": part.licence, "here": part.is_present()}
    if isinstance(part, ModelKind):
        return {"name": name, "about": part.about, "takes": part.takes}
    if hasattr(part, "describe"):
        return {"name": name, "about": part.describe()}
    return _class_row(name, part)


def _descriptions(kind: str) -> dict[str, str]:
    if kind == "engines":
        from fedloom.engines import ENGINES

        return ENGINES
    if kind == "executions":
        from fedloom.training.execution import EXECUTIONS

        return EXECUTIONS
    if kind == "weightings":
        from fedloom.aggregation.mean import WEIGHTINGS

        return WEIGHTINGS
    from fedloom.runs.callbacks.trackers import TRACKERS

    return TRACKERS


def _class_row(name: str, part: Any) -> dict[str, Any]:
    """A class's first docstring line, its paper if the docstring names one, and its settings with defaults."""
    from dataclasses import fields, is_dataclass

    text = inspect.getdoc(part) or ""
    settings = {}
    for item in fields(part) if is_dataclass(part) else ():
        parameter = inspect.signature(part).parameters[item.name]
        if parameter.default is not inspect.Parameter.empty:
            settings[item.name] = parameter.default
    return {"name": name, "about": text.splitlines()[0] if text else "", "text": text, "settings": settings}
