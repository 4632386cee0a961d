"""The document's class tables: their sums and counts are those that the tables themselves report."""

from __future__ import annotations

import pytest

from fedloom.tasks.flows.platform_kinds import ENDS, KINDS, NEVER_TARGETS, SPLIT, START, SUBKINDS, TARGETS, kind_of
from fedloom.tasks.flows.rules import PLATFORM


def test_kinds_are_26_and_add_up_to_all_points():
    assert len(KINDS) == 26
    assert sum(often.mean for often in KINDS.values()) == pytest.approx(100.0, abs=1e-9)


def test_kinds_are_those_of_the_platform_dialect():
    assert set(KINDS) == PLATFORM.kinds
    assert PLATFORM.start == START
    assert set(ENDS) == PLATFORM.ends


def test_what_is_never_a_target_is_in_the_table_with_nothing():
    assert set(NEVER_TARGETS) == {kind for kind, often in KINDS.items() if often.mean == 0}
    assert set(TARGETS) == set(KINDS) - set(NEVER_TARGETS)


def test_subkinds_are_195_of_which_101_occur():
    assert len(SUBKINDS) == 195
    assert sum(often.mean > 0 for often in SUBKINDS.values()) == 101
    assert sum(often.mean for often in SUBKINDS.values()) == pytest.approx(99.91, abs=1e-9)


def test_split_kinds_have_as_many_subkinds_as_the_document_counts():
    for kind, count in SPLIT.items():
        assert sum(kind_of(name) == kind for name in SUBKINDS) == count
    assert {kind_of(name) for name in SUBKINDS} == set(KINDS)


def test_the_parts_of_a_split_kind_add_up_to_it_up_to_rounding():
    for kind in SPLIT:
        whole = sum(often.mean for name, often in SUBKINDS.items() if kind_of(name) == kind)
        assert whole == pytest.approx(KINDS[kind].mean, abs=0.1)


def test_kinds_that_are_not_split_keep_their_row():
    assert {name: often for name, often in SUBKINDS.items() if "/" not in name} == {
        kind: often for kind, often in KINDS.items() if kind not in SPLIT
    }
