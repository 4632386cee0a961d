"""``fedloom list``: the available methods, tasks, models and other parts, generated from the code."""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

KINDS = (
    "methods",
    "tasks",
    "data",
    "models",
    "partitions",
    "selectors",
    "aggregators",
    "channels",
    "attacks",
    "losses",
    "metrics",
    "stages",
    "engines",
    "executions",
    "weightings",
    "trackers",
)

PART_KEYS = {
    "selectors": "selection",
    "aggregators": "aggregation",
    "channels": "channel",
    "attacks": "adversary",
    "stages": "prediction",
}
"""The config keys of the kinds that are parts of a run."""


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
        table.add_row(row["name"], Text.assemble(row["about"], (f"  ({extra})", "dim") if extra else ""))
    printer().print(table)


def _rows(kind: str) -> list[dict[str, Any]]:
    if kind == "methods":
        from fedloom.methods.registry import METHODS

        return [_class_row(name, part) for name, part in METHODS.items()]
    if kind == "tasks":
        from fedloom.tasks.registry import TASKS

        return [{"name": name, "about": builder.describe()} for name, builder in TASKS.items()]
    if kind == "data":
        from fedloom.data.datasets.registry import DATASETS

        return [
            {"name": n, "about": d.description, "licence": d.licence, "here": d.is_present()}
            for n, d in DATASETS.items()
        ]
    if kind == "models":
        from fedloom.models import MODELS

        return [{"name": name, "about": model.about, "takes": model.takes} for name, model in MODELS.items()]
    if kind == "partitions":
        from fedloom.data.partition.registry import PARTITIONS

        return [_class_row(name, part) for name, part in PARTITIONS.items()]
    if kind == "losses":
        from fedloom.losses.registry import LOSSES

        return [_class_row(name, part) for name, part in LOSSES.items()]
    if kind == "metrics":
        from fedloom.metrics.registry import METRICS

        return [_class_row(name, part) for name, part in METRICS.items()]
    part_of_a_run = PART_KEYS.get(kind)
    if part_of_a_run is not None:
        from fedloom.config.named_parts import PARTS

        known = next(part.known for part in PARTS if part.key == part_of_a_run)
        return [_class_row(name, part) for name, part in known.items()]
    return [{"name": name, "about": about} for name, about in _descriptions(kind).items()]


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
    from fedloom.runs.trackers import TRACKERS

    return TRACKERS


def _class_row(name: str, part: Any) -> dict[str, Any]:
    """A class's first docstring line, its paper if the docstring names one, and its settings with defaults."""
    from dataclasses import fields

    text = inspect.getdoc(part) or ""
    settings = {}
    for item in fields(part):
        parameter = inspect.signature(part).parameters[item.name]
        if parameter.default is not inspect.Parameter.empty:
            settings[item.name] = parameter.default
    return {"name": name, "about": text.splitlines()[0] if text else "", "text": text, "settings": settings}
