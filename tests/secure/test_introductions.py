"""Introductions are joined and parted; bytes that are none are refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.secure.introductions import join_introductions, part_introductions
from fedloom.secure.refusal import RefusedMessage


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.binary(max_size=50), max_size=5))
def test_what_is_joined_is_parted(introductions):
    assert part_introductions(join_introductions(introductions)) == introductions


@given(st.binary(max_size=60))
def test_any_other_bytes_are_refused_or_mean_something(data):
    with contextlib.suppress(RefusedMessage):
        assert join_introductions(part_introductions(data)) == data or len(part_introductions(data)) > 1


def test_what_is_cut_off_or_said_twice_is_refused():
    whole = join_introductions({1: b"abc"})
    for data in (whole[:-1], whole[:5], whole + whole):
        with pytest.raises(RefusedMessage):
            part_introductions(data)
