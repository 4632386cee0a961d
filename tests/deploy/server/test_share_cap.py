"""No site of three or more counts with an implausible claim, or with more samples than all others together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.server.share_cap import PLAUSIBLE, SampleLimit, sample_limits


def sizes(*train: int) -> dict[int, ClientSizes]:
    return {client: ClientSizes(number, 1, 2, number + 3) for client, number in enumerate(train)}


def counted(
    *train: int, sites: int | None = None, max_share: float = 0.5, stated: dict[int, int] | None = None
) -> list[int]:
    limits = sample_limits(sizes(*train), sites or len(train), max_share, stated or {})
    return [limits[client].most if client in limits else number for client, number in enumerate(train)]


def test_an_implausible_claim_counts_as_the_median_of_the_others():
    assert counted(10**9, 40, 60) == [50, 40, 60]
    assert counted(10**9, 40, 60, max_share=1.0) == [50, 40, 60]
    assert "implausible" in sample_limits(sizes(10**9, 40, 60), 3, 0.5, {})[0].reason


def test_a_plausible_claim_counts_up_to_what_all_others_have():
    assert counted(300, 40, 60) == [100, 40, 60]
    assert sample_limits(sizes(300, 40, 60), 3, 0.5, {})[0].reason == "max_share = 0.5"
    assert counted(100, 40, 60) == [100, 40, 60]
    assert counted(300, 40, 60, max_share=1.0) == [300, 40, 60]


def test_what_the_operator_states_is_believed_and_is_the_most():
    assert counted(10**9, 40, 60, stated={0: 10**9}, max_share=1.0) == [10**9, 40, 60]
    assert counted(10**9, 40, 60, stated={0: 80}) == [80, 40, 60]
    assert counted(70, 40, 60, stated={0: 80}) == [70, 40, 60]
    assert counted(10**9, 40, stated={0: 80}) == [80, 40]


def test_honest_sizes_stay_and_so_do_two_sites_and_the_evaluator():
    assert counted(50, 30, 21) == [50, 30, 21]
    assert counted(10**9, 1) == [10**9, 1]
    assert counted(10, 10, 10, 10**6, sites=3) == [10, 10, 10, 10**6]
    assert counted(960, *[3] * 11, max_share=1.0) == [960, *[3] * 11]


@given(st.lists(st.integers(10**6, 10**6 * PLAUSIBLE), min_size=3, max_size=12), st.sampled_from([0.5, 0.6, 0.9]))
def test_the_largest_share_is_the_allowed_one(train, share):
    found = counted(*train, max_share=share)
    assert all(1 <= now <= said for now, said in zip(found, train, strict=True))
    assert max(found) <= max(1, share / (1 - share) * (sum(found) - max(found)) + 1e-6 * sum(train))
    if max(train) <= share * sum(train):
        assert found == train


def test_only_those_that_are_cut_have_a_limit():
    assert sample_limits(sizes(100, 1, 1), 3, 0.5, {}) == {0: SampleLimit(2, "max_share = 0.5")}
    assert sample_limits(sizes(100, 1, 1), 3, 1.0, {}) == {}
