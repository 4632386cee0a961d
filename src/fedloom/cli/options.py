"""The options that ``run`` and ``compare`` share, and how they become a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

TASK, LOCAL, ROUND, OUTPUT = "The data", "Local training", "Rounds", "Output"

Config = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with any of the settings; options override it.")
]
Task = Annotated[
    str | None,
    typer.Option("--task", help="A task of [b]fedloom list tasks[/b] (default: digits).", rich_help_panel=TASK),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data", help="Your own data instead: CSV, NPZ, parquet, LEAF or per-client NPZ.", rich_help_panel=TASK
    ),
]
Target = Annotated[
    str | None, typer.Option("--target", help="The label column of --data (default: label).", rich_help_panel=TASK)
]
ClientColumn = Annotated[
    str | None,
    typer.Option("--client-column", help="Its client column (default: client, if there is one).", rich_help_panel=TASK),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", help="A column of --data that is no feature. Repeatable.", rich_help_panel=TASK),
]
Clients = Annotated[
    int | None, typer.Option("--clients", help="How many clients share the data.", rich_help_panel=TASK)
]
Alpha = Annotated[
    float | None,
    typer.Option("--alpha", help="Dirichlet label skew: 0.1 is strong, 100 is none.", rich_help_panel=TASK),
]
Partition = Annotated[
    str | None,
    typer.Option("--partition", help="Another division, for instance 'shards(2)' or iid.", rich_help_panel=TASK),
]
Model = Annotated[
    str | None, typer.Option("--model", help="A model of [b]fedloom list models[/b].", rich_help_panel=TASK)
]
Epochs = Annotated[int | None, typer.Option("--epochs", help="Local epochs per round.", rich_help_panel=LOCAL)]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", help="Local batch size; 0 is all data at once.", rich_help_panel=LOCAL)
]
Rate = Annotated[float | None, typer.Option("--lr", help="Local learning rate.", rich_help_panel=LOCAL)]
Rounds = Annotated[int | None, typer.Option("--rounds", help="How many rounds (default: 20).", rich_help_panel=ROUND)]
Selection = Annotated[
    str | None,
    typer.Option(
        "--selection",
        help="Who takes part: a selector of [b]fedloom list selectors[/b] (default: random).",
        rich_help_panel=ROUND,
    ),
]
Fraction = Annotated[
    float | None, typer.Option("--fraction", help="Share of clients per round (default: 1).", rich_help_panel=ROUND)
]
Number = Annotated[int | None, typer.Option("--number", help="Or how many clients per round.", rich_help_panel=ROUND)]
NewClients = Annotated[
    int | None,
    typer.Option("--new-clients", help="So many clients never train and are only scored.", rich_help_panel=ROUND),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Same seed, same bytes (default: 0).", rich_help_panel=ROUND)]
Workers = Annotated[
    int | None, typer.Option("--workers", help="Worker processes; they never change a result.", rich_help_panel=ROUND)
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="Where clients train: auto, or one of [b]fedloom list engines[/b]; it never changes a result.",
        rich_help_panel=ROUND,
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address", help="A Ray cluster's host:port, or auto; without it a local Ray.", rich_help_panel=ROUND
    ),
]
Execution = Annotated[
    str | None,
    typer.Option("--execution", help="auto, vectorised, loop or compiled.", rich_help_panel=ROUND),
]
EvalEvery = Annotated[
    int | None, typer.Option("--eval-every", help="Score every n rounds; 0 is never.", rich_help_panel=ROUND)
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other setting, for instance local.momentum=0.9. Repeatable."),
]
Out = Annotated[Path | None, typer.Option("--out", help="Where the run's folder goes.", rich_help_panel=OUTPUT)]
Track = Annotated[
    list[str] | None,
    typer.Option("--track", help="Also send numbers to tensorboard or mlflow.", rich_help_panel=OUTPUT),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.", rich_help_panel=OUTPUT)]


def collect(
    config: Path | None,
    settings: list[str] | None,
    alpha: float | None,
    partition: str | None,
    selection: str | None,
    **options: Any,
) -> dict[str, Any]:
    """Nested config values from a TOML file, then options, then ``--set``. Option names say where they go."""
    from fedloom.core.errors import FedloomError
    from fedloom.core.nested import set_nested
    from fedloom.core.validation import read_toml
    from fedloom.data.partition.registry import dirichlet, partition_config, partitioner
    from fedloom.methods.registry import split_method
    from fedloom.runs.config import override

    values: dict[str, Any] = read_toml(config) if config is not None else {}
    for section in ("task", "local", "selection"):
        if not isinstance(values.get(section, {}), dict):
            raise FedloomError(f"{section} in {config} is a section with keys, for instance [{section}], not a value.")
    if alpha is not None and partition is not None:
        raise FedloomError(f"--alpha {alpha} and --partition {partition} both say how to divide the data: give one.")
    divide = dirichlet(alpha) if alpha is not None else partitioner(partition) if partition is not None else None
    if divide is not None:
        values.setdefault("task", {})["partition"] = partition_config(divide)
    if selection is not None:
        name, own = split_method(selection)
        given = values.get("selection", {})
        values["selection"] = {**(given if given.get("name") in (None, name) else {}), "name": name, **own}
    for place, value in options.items():
        if value is not None:
            set_nested(values, place.replace("__", "."), value, f"--{place.rpartition('__')[2]}")
    if "path" in values.get("task", {}):
        values["task"].setdefault("name", "own")
    if "method" in values and isinstance(values["method"], str):
        values["method"] = {"name": values["method"]}
    values = override(values, settings or [])
    for section in ("task", "local", "selection", "method"):
        if not isinstance(values.get(section, {}), dict):
            raise FedloomError(f"--set {section}=...: {section} is a section; set one of its keys.")
    return values
