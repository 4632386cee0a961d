"""Client sizes: the statistics of the document's table 5.1, its groups and bins, and what scaling keeps."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.synthetic.client_sizes import (
    BINS,
    LARGEST,
    SIZES,
    bin_of,
    drawn,
    group,
    picked,
    scaled,
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
    assert (scaled(80, 14_000), scaled(LARGEST, 14_000)) == (80, 14_000)
    assert thresholds(14_000) == (606, 3_094)
    assert [scaled(n) for n in SIZES] == list(SIZES)


@given(st.integers(500, LARGEST))
def test_scaling_changes_no_group_and_keeps_the_order(largest):
    small = [scaled(n, largest) for n in SIZES]
    assert small == sorted(small)
    assert [group(n, largest) for n in small] == [group(n) for n in SIZES]


def test_bins_are_eleven_and_cover_every_count_once():
    assert len(BINS) == 11
    assert BINS[0] == (0, 63)
    assert BINS[-1] == (32_768, 65_535)
    assert all(after[0] == before[1] + 1 for before, after in itertools.pairwise(BINS))
    assert [bin_of(count) for count in (0, 63, 64, 127, 128, 65_535)] == [0, 0, 1, 1, 2, 10]
    with pytest.raises(FedloomError, match="65536 flows are outside"):
        bin_of(65_536)


def test_three_clients_are_drawn_from_each_bin_by_chance():
    flows = np.random.default_rng(0).integers(0, 65_536, 2_000) >> np.random.default_rng(1).integers(0, 12, 2_000)
    chosen = drawn(flows.tolist(), 3, seed=0)
    assert Counter(bin_of(flows[i]) for i in chosen) == dict.fromkeys(range(11), 3)
    assert len(set(chosen)) == 33
    assert drawn(flows.tolist(), 3, seed=0) == chosen
    assert drawn(flows.tolist(), 3, seed=1) != chosen


def test_a_bin_with_too_few_clients_gives_all_it_has():
    assert drawn([10, 20, 100], 3, seed=0) == [0, 1, 2]


@given(st.integers(2, 33))
def test_clients_are_spread_from_the_smallest_to_the_largest(clients):
    places = picked(clients)
    assert len(set(places)) == clients
    assert (places[0], places[-1]) == (0, 32)
    assert max(np.diff(places)) - min(np.diff(places)) <= 1


def test_all_33_clients_are_all_sizes():
    assert picked(33) == list(range(33))


@pytest.mark.parametrize("clients", [0, 34])
def test_more_clients_than_the_document_has_are_refused(clients):
    with pytest.raises(FedloomError, match=f"clients={clients}: .* has 33 clients"):
        picked(clients)


def test_a_largest_client_below_the_smallest_is_refused():
    with pytest.raises(FedloomError, match="largest=80: "):
        scaled(1_000, 80)
