"""Names of earlier versions are refused, and the sentence names the new one."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import pytest

import fedloom as fl
from fedloom.core.renamed import MODULES, renamed
from fedloom.tasks.flows.learning.recommender import Recommender


@pytest.mark.parametrize(("old", "new"), MODULES.items())
def test_a_module_of_an_earlier_version_is_refused_with_its_new_path(old: str, new: str):
    with pytest.raises(ModuleNotFoundError, match=rf"{old} is now {new}") as done:
        importlib.import_module(old)
    assert done.value.name == old
    module, _, function = new.partition(", and its function write is ")
    assert not function or hasattr(importlib.import_module(module), function)
    importlib.import_module(module)


def test_the_parts_of_a_module_are_refused_with_its_new_path():
    with pytest.raises(ModuleNotFoundError, match=r"fedloom\.graphs is now fedloom\.tasks\.graphs"):
        from fedloom.graphs.task import graph_task  # noqa: F401


def test_a_module_that_never_existed_is_not_found_as_usual():
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("fedloom.nothing")


@pytest.mark.parametrize(
    ("owner", "old", "new"),
    [
        (fl.Cohort, "kept", "kept_rows"),
        (fl.Cohort, "held", "points"),
        (fl.Cohort, "loom", "trainer"),
        (fl.Replies, "site", "context"),
        (fl.ServerContext, "loom", "trainer"),
        (fl.Ragged, "grouped", "by_owner"),
        (fl.Federation, "pooled", "as_one_client"),
        (Recommender, "ask", "question"),
        (Recommender, "strange", "unknown_words"),
        (fl.Federation, "validated", "with_validation_as_test"),
    ],
)
def test_an_attribute_of_an_earlier_version_is_refused_with_the_new_one(owner: Any, old: str, new: str):
    with pytest.raises(fl.FedloomError, match=f"{owner.__name__}.{old} is now {owner.__name__}.{new}"):
        getattr(object.__new__(owner), old)
    with pytest.raises(AttributeError, match=new):
        getattr(owner, old)


def test_an_old_attribute_counts_as_missing_and_a_subclass_may_use_its_name():
    @renamed(old="new")
    class Some:
        new = 1

    @dataclass
    class Other(Some):
        old: int

    assert not hasattr(Some(), "old")
    assert Other(3).old == 3
