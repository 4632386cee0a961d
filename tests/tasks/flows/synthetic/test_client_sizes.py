"""Client sizes: the statistics of the document's table 5.1, its groups and bins, and what scaling keeps."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.synthetic.client_sizes import (
    LARGEST,
    SIZES,
    group,
    scaled_size,
    spread_places,
    thresholds,
)

GROUP_COUNTS = {"small": 11, "intermediate": 10, "big": 12}


def test_sizes_have_the_statistics_of_table_5_1():
    sizes = np.array(SIZES)
    assert len(sizes) == 33
    assert (sizes.min(), sizes.max(), np.median(sizes)) == (80, 374_860, 10_175)
    assert np.percentile(sizes, [25, 75, 90, 95, 99]) == pytest.approx(
        [1_003, 77_790, 182_641, 266_686, 346_235], abs=1
    )
    assert sizes.mean() == pytest.approx(57_855, rel=0.002)
    assert sizes.std(ddof=1) == pytest.approx(94_904, rel=0.002)
    assert sizes.var(ddof=1) == pytest.approx(9_006_809_135, rel=0.002)


def test_groups_have_11_10_and_12_clients_and_the_big_own_nearly_all_weight():
    assert Counter(map(group, SIZES)) == GROUP_COUNTS
    weight = {name: sum(n for n in SIZES if group(n) == name) / sum(SIZES) for name in GROUP_COUNTS}
    assert [round(100 * weight[name], 1) for name in GROUP_COUNTS] == [0.3, 5.9, 93.7]


def test_a_client_at_a_threshold_is_in_the_lower_group():
    assert (group(2_200), group(2_201)) == ("small", "intermediate")
    assert (group(31_700), group(31_701)) == ("intermediate", "big")


def test_scaling_keeps_the_ends_and_gives_the_worked_out_thresholds():
    assert (scaled_size(80, 14_000), scaled_size(LARGEST, 14_000)) == (80, 14_000)
    assert thresholds(14_000) == (606, 3_094)
    assert [scaled_size(n) for n in SIZES] == list(SIZES)


@given(st.integers(500, LARGEST))
def test_scaling_changes_no_group_and_keeps_the_order(largest):
    small = [scaled_size(n, largest) for n in SIZES]
    assert small == sorted(small)
    assert [group(n, largest) for n in small] == [group(n) for n in SIZES]


@given(st.integers(2, 33))
def test_clients_are_spread_from_the_smallest_to_the_largest(clients):
    places = spread_places(clients)
    assert len(set(places)) == clients
    assert (places[0], places[-1]) == (0, 32)
    assert max(np.diff(places)) - min(np.diff(places)) <= 1


def test_all_33_clients_are_all_sizes():
    assert spread_places(33) == list(range(33))


@pytest.mark.parametrize("clients", [0, 34])
def test_more_clients_than_the_document_has_are_refused(clients):
    with pytest.raises(FedloomError, match=f"clients={clients}: .* from 1 to 33 clients"):
        spread_places(clients)


def test_a_largest_client_below_the_smallest_is_refused():
    with pytest.raises(FedloomError, match="largest=80: "):
        scaled_size(1_000, 80)
