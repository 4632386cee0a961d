"""Names of methods as they are written on the command line."""

from __future__ import annotations

import math

import pytest

from fedloom.methods.registry import make_method


@pytest.mark.parametrize(
    ("written", "read"),
    [("fedhybridavglg:threshold=inf", math.inf), ("FedHybridAvgLG-Dual:threshold=50", 50), ("fedhybridavglg", 2200)],
)
def test_hybrids_are_named_as_on_the_command_line(written, read):
    assert make_method(written).threshold == read
