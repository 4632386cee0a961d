"""The grid of a sweep: several values for each of some config keys, and all combinations of them.

On the command line a key is written ``local.lr=0.05,0.1``. Keys are dotted as in ``--set``; the values of ``method``
are specs (``method=fedavg,fedprox:mu=0.1,fedavg+fedpredict``).
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedloom.config.method_spec import split_methods, with_method
from fedloom.config.python_objects import without_replaced_objects
from fedloom.core.errors import FedloomError
from fedloom.data.partition.partitioner import partition_config, partitioner
from fedloom.registry.nested_keys import set_nested
from fedloom.registry.spec import split_commas
from fedloom.registry.validation import toml_value

Grid = dict[str, list[Any]]
Settings = dict[str, Any]
SPECS = ("method", "task.model")
"""Keys whose values are specs, which may have commas between their settings."""


def read_grid(texts: Sequence[str]) -> Grid:
    """A grid from texts of the form ``key=value,value``. A value that is not valid TOML is read as text."""
    grid: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, rest = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise FedloomError(f"--grid {text}: write it as key=value,value, for instance local.lr=0.05,0.1.")
        if key in grid:
            raise FedloomError(f"--grid {text}: {key} is given twice; give all of its values at once.")
        pieces = split_commas(rest) if rest else []
        if "" in pieces:
            raise FedloomError(f"--grid {text}: a value between commas is empty; remove it.")
        grid[key] = list(split_methods(rest)) if key in SPECS else [toml_value(piece) for piece in pieces]
    return check_grid(grid)


def check_grid(grid: Mapping[str, Iterable[Any]]) -> Grid:
    """The grid as lists of plain values; an empty list or a repeated value is an error."""
    if not isinstance(grid, Mapping):
        raise FedloomError(f"grid={grid!r}: give the values of each key, for instance {{'local.lr': [0.05, 0.1]}}.")
    if not grid:
        raise FedloomError("a sweep needs a grid, for instance --grid local.lr=0.05,0.1.")
    found: Grid = {}
    for key, values in grid.items():
        if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
            raise FedloomError(f"the grid of {key} must be a list of values, got {values!r}.")
        if key == "seed":
            raise FedloomError("seed cannot be in the grid, because scores are means over seeds: use --seeds.")
        found[key] = [_toml_plain(value) for value in values]
        if not found[key]:
            raise FedloomError(f"the grid of {key} has no value: give at least one, for instance {key}=0.05,0.1.")
        for place, value in enumerate(found[key]):
            if value in found[key][:place] or str(value) in map(str, found[key][:place]):
                raise FedloomError(f"the grid of {key} has {value} twice: give each value once.")
    return found


def combinations(grid: Grid) -> list[Settings]:
    """All combinations. Keys of the task change slowest, so that consecutive runs share their data."""
    keys = sorted(grid, key=lambda key: not key.startswith("task."))
    chosen = [dict(zip(keys, values, strict=True)) for values in itertools.product(*(grid[key] for key in keys))]
    return [{key: settings[key] for key in grid} for settings in chosen]


def with_settings(values: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """A config's values with the settings of one combination."""
    result = copy.deepcopy(dict(values))
    if "method" in settings:
        result = with_method(result, str(settings["method"]))
    for key, value in settings.items():
        if key.startswith("task.partition."):
            _write_out_partition(result, key)
        if key != "method":
            set_nested(result, key, value, f"the grid of {key}")
    return without_replaced_objects(result, values)


def short_keys(grid: Mapping[str, Any]) -> dict[str, str]:
    """The column heading of each key: its last part where that is unambiguous."""
    words = [key.rpartition(".")[2] for key in grid]
    return {key: word if words.count(word) == 1 else key for key, word in zip(grid, words, strict=True)}


def combination_label(settings: Settings) -> str:
    """A combination as text, for instance ``mu=0.1 lr=0.05``."""
    names = short_keys(settings)
    return " ".join(f"{names[key]}={value}" for key, value in settings.items())


def _write_out_partition(values: dict[str, Any], key: str) -> None:
    """Expand the partition to a section, so that one of its settings can be set; ``alpha`` alone means Dirichlet."""
    task = values.setdefault("task", {})
    given = task.get("partition")
    if given is None and key != "task.partition.alpha":
        raise FedloomError(f"the grid of {key}: give the partition too, for instance --partition 'shards(2)'.")
    if given is None:
        task["partition"] = {"name": "dirichlet"}
    elif isinstance(given, str):
        task["partition"] = partition_config(partitioner(given))


def _toml_plain(value: Any) -> Any:
    """A NumPy number or a tuple as a value that TOML can represent."""
    if isinstance(value, (list, tuple)):
        return [_toml_plain(one) for one in value]
    return value.item() if hasattr(value, "item") else value
