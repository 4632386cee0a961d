"""Dotted paths in settings, and prefixes in names of tensors."""

import pytest

from fedloom.core.errors import FedloomError
from fedloom.registry.nested_keys import flatten, select_prefix, set_nested


def test_setting_by_a_dotted_path_adds_the_sections_on_the_way():
    values = {"local": {"lr": 0.1}}
    set_nested(values, "local.momentum", 0.9, "test")
    set_nested(values, "task.partition.alpha", 0.5, "test")
    set_nested(values, "rounds", 3, "test")
    assert values == {"local": {"lr": 0.1, "momentum": 0.9}, "task": {"partition": {"alpha": 0.5}}, "rounds": 3}


def test_a_key_below_a_value_is_refused():
    with pytest.raises(FedloomError, match=r"--set rounds.x=1: rounds is a value, not a section"):
        set_nested({"rounds": 3}, "rounds.x", 1, "--set rounds.x=1")


def test_flattening_gives_the_paths_that_setting_takes():
    values = {"a": {"b": 1, "c": {"d": 2}}, "e": 3, "f": {}}
    again: dict[str, object] = {}
    for path, value in flatten(values):
        set_nested(again, path, value, "test")
    assert again == values


def test_entries_below_a_prefix_lose_it():
    assert select_prefix({"server/row": 1, "server/a/b": 2, "round": 3}, "server/") == {"row": 1, "a/b": 2}
