"""Names of methods as they are written on the command line."""

from __future__ import annotations

import math

import pytest

from fedloom.methods.registry import make_method, split_method


def test_a_users_method_is_named_by_its_file_with_settings():
    assert split_method("my.py:Mine") == ("my.py:Mine", {})
    assert split_method("my.py:Mine:mu=2") == ("my.py:Mine", {"mu": 2})


@pytest.mark.parametrize(
    ("written", "read"),
    [("fedhybridavglg:threshold=inf", math.inf), ("FedHybridAvgLG-Dual:threshold=50", 50), ("fedhybridavglg", 2200)],
)
def test_hybrids_are_named_as_on_the_command_line(written, read):
    assert make_method(written).threshold == read
