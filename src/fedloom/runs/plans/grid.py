"""Grids: some keys of the config, each with some values, and all their combinations.

``local.lr=0.05,0.1`` is what the command line writes. A key is dotted as in ``--set``; ``method`` takes methods as they
are written anywhere else (``method=fedavg,fedprox:mu=0.1,fedavg+fedpredict``).
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.core.nested import set_nested
from fedloom.core.validation import toml_value
from fedloom.data.partition.registry import partition_config, partitioner
from fedloom.runs.api import complete_local, with_method

Grid = dict[str, list[Any]]
Settings = dict[str, Any]

OPEN, CLOSE = "([{", ")]}"


def read_grid(texts: Sequence[str]) -> Grid:
    """The grid that some ``key=value,value`` texts write; a value is read as TOML, or as text if it is none."""
    grid: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, rest = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise FedloomError(f"--grid {text}: write it as key=value,value, for instance local.lr=0.05,0.1.")
        if key in grid:
            raise FedloomError(f"--grid {text}: {key} has a grid already; name all of its values in one.")
        pieces = _pieces(rest) if rest else []
        if "" in pieces:
            raise FedloomError(f"--grid {text}: there is an empty value between the commas; leave it out.")
        grid[key] = list(split_methods(rest)) if key == "method" else [toml_value(piece) for piece in pieces]
    return checked(grid)


def checked(grid: Mapping[str, Iterable[Any]]) -> Grid:
    """The same grid as lists of plain values, or the sentence that says what is wrong with it."""
    if not grid:
        raise FedloomError("a sweep needs a grid, for instance --grid local.lr=0.05,0.1.")
    found: Grid = {}
    for key, values in grid.items():
        if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
            raise FedloomError(f"the grid of {key} is {values!r}: give a list of values.")
        if key == "seed":
            raise FedloomError("a grid over seed is what --seeds is for: a combination's score is a mean over seeds.")
        found[key] = [_plain(value) for value in values]
        if not found[key]:
            raise FedloomError(f"the grid of {key} has no value: give at least one, for instance {key}=0.05,0.1.")
        for place, value in enumerate(found[key]):
            if value in found[key][:place] or str(value) in map(str, found[key][:place]):
                raise FedloomError(f"the grid of {key} has {value} twice: name each value once.")
    return found


def combinations(grid: Grid) -> list[Settings]:
    """All combinations; keys of the task change slowest, so that neighbours share their data."""
    keys = sorted(grid, key=lambda key: not key.startswith("task."))
    chosen = [dict(zip(keys, values, strict=True)) for values in itertools.product(*(grid[key] for key in keys))]
    return [{key: settings[key] for key in grid} for settings in chosen]


def applied(values: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """A config's values with the settings of one combination."""
    result = copy.deepcopy(dict(values))
    if "method" in settings:
        result = with_method(result, str(settings["method"]))
    for key, value in settings.items():
        if key.startswith("task.partition."):
            _spell_partition(result, key)
        if key != "method":
            set_nested(result, key, value, f"the grid of {key}")
    return complete_local(result)


def short_keys(grid: Mapping[str, Any]) -> dict[str, str]:
    """What to call each key in a table: its last word where that is enough."""
    words = [key.rpartition(".")[2] for key in grid]
    return {key: word if words.count(word) == 1 else key for key, word in zip(grid, words, strict=True)}


def label(settings: Settings) -> str:
    """A combination in words."""
    names = short_keys(settings)
    return " ".join(f"{names[key]}={value}" for key, value in settings.items())


def _spell_partition(values: dict[str, Any], key: str) -> None:
    """A partition's setting needs the partition written out; ``alpha`` alone is Dirichlet's, as with ``--alpha``."""
    task = values.setdefault("task", {})
    given = task.get("partition")
    if given is None and key != "task.partition.alpha":
        raise FedloomError(f"the grid of {key}: say which partition it is of, for instance --partition 'shards(2)'.")
    if given is None:
        task["partition"] = {"name": "dirichlet"}
    elif isinstance(given, str):
        task["partition"] = partition_config(partitioner(given))


def _pieces(text: str) -> list[str]:
    """Split at the commas that are in no bracket and no quotes."""
    pieces, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        depth += (letter in OPEN) - (letter in CLOSE) if not quote else 0
        if letter == "," and depth == 0 and not quote:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]


def split_methods(text: str) -> list[str]:
    """The methods of a list with commas; in ``fedprox:mu=1,adaptive=true`` the setting belongs to the method."""
    found: list[str] = []
    for piece in filter(None, _pieces(text)):
        if found and ":" in found[-1] and "=" in piece and ":" not in piece:
            found[-1] += f",{piece}"
        else:
            found.append(piece)
    return found


def _plain(value: Any) -> Any:
    """A number of numpy's, or a tuple, as TOML can write it."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value.item() if hasattr(value, "item") else value
