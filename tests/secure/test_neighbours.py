"""Who shares masks with whom."""

import itertools
import math
import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from fedloom.core.errors import FedloomError
from fedloom.secure.neighbours import (
    DELIVERY,
    FEW,
    SECRECY,
    NeighbourPlan,
    _log2_chance_of_parts,
    count_of,
    neighbours_by_client,
    order_on_circle,
    plan_neighbours,
)


@pytest.mark.parametrize("clients", [100, 1000, 10_000])
@pytest.mark.parametrize(("dropouts", "colluders"), [(0.05, 0.0), (0.05, 0.05), (0.1, 0.1), (0.2, 0.2)])
def test_the_plan_meets_the_hypergeometric_conditions_and_no_smaller_one_does(clients, dropouts, colluders):
    gone, bad = count_of(dropouts, clients), count_of(colluders, clients)

    def thresholds(degree: int) -> list[int]:
        """Those that meet all conditions, by scipy."""
        tried = np.arange(1, degree + 1)
        secret = clients * hypergeom.sf(2 * tried - degree - 2, clients - 1, bad, degree) <= 2.0 ** -(SECRECY + 1)
        stayers = (clients - gone) * hypergeom.sf(degree + 1 - tried, clients - 1, gone, degree)
        dropouts = gone * hypergeom.sf(degree - tried, clients - 1, gone - 1, degree)
        delivered = stayers + dropouts <= 2.0**-DELIVERY
        parted = clients * (clients - 1) / 2 * hypergeom.pmf(degree, clients, gone + bad, degree)
        return list(tried[secret & delivered & (parted <= 2.0 ** -(SECRECY + 1))])

    plan = plan_neighbours(clients, dropouts, colluders)
    if plan.degree == clients - 1:
        assert plan.threshold == clients - gone
        assert not thresholds(clients * 3 // 4 // 2 * 2)
    else:
        assert plan.threshold == max(thresholds(plan.degree))
        assert not thresholds(plan.degree - max(2, plan.degree // 60 * 2))


def test_few_clients_are_all_neighbours():
    assert plan_neighbours(3, 0.34, 0.0) == NeighbourPlan(2, 2)
    assert plan_neighbours(10, 0.2, 0.3) == NeighbourPlan(9, 8)
    assert plan_neighbours(2, 0.0, 0.0) == NeighbourPlan(1, 2)
    assert plan_neighbours(FEW, 0.05, 0.0) == NeighbourPlan(FEW - 1, FEW - 1)
    assert plan_neighbours(FEW + 8, 0.05, 0.0).degree < FEW / 2


def test_many_clients_have_about_as_many_neighbours_as_the_logarithm_of_their_number():
    degrees = [plan_neighbours(10**power, 0.1, 0.1).degree for power in (3, 4, 5, 6)]
    assert degrees == sorted(degrees)
    assert degrees[-1] < 2 * degrees[0] < 250


def parts_of(clients: int, degree: int, stay: set[int]) -> int:
    """Into how many parts the graph of those that stay falls."""
    edges = neighbours_by_client(tuple(range(clients)), degree, b"seed")
    return nx.number_connected_components(nx.Graph(edges).subgraph(stay))


@settings(max_examples=30)
@given(st.integers(8, 16), st.sampled_from([2, 4, 6]), st.data())
def test_a_circle_falls_apart_if_and_only_if_it_has_two_wide_gaps(clients, degree, data):
    stay = data.draw(st.sets(st.integers(0, clients - 1), min_size=1))
    circle = order_on_circle(range(clients), b"seed")
    places = [place for place, client in enumerate(circle) if client in stay]
    steps = [(after - before) % clients for before, after in zip(places, places[1:] + places[:1], strict=True)]
    wide = sum(step - 1 >= degree // 2 for step in steps)
    assert (parts_of(clients, degree, stay) == 1) == (wide < 2)


def test_the_chance_of_falling_apart_is_bounded():
    clients, degree, removed, draws = 14, 4, 7, 400
    rng = random.Random(0)
    parted = sum(
        parts_of(clients, degree, set(rng.sample(range(clients), clients - removed))) > 1 for _ in range(draws)
    )
    assert 0.01 < parted / draws <= 2 ** _log2_chance_of_parts(clients, removed, degree)


@settings(max_examples=30)
@given(st.sets(st.integers(0, 2**32 - 1), min_size=7, max_size=20), st.sampled_from([2, 4, 6]), st.binary(max_size=4))
def test_neighbours_are_mutual_and_everybody_has_as_many(clients, degree, seed):
    edges = neighbours_by_client(tuple(sorted(clients)), degree, seed)
    assert all(len(set(others)) == degree and client not in others for client, others in edges.items())
    assert all(client in edges[other] for client, others in edges.items() for other in others)


def test_neighbours_are_all_others_or_by_chance():
    clients = tuple(range(40))
    whole = neighbours_by_client(clients, 39, b"seed")
    assert all(others == tuple(o for o in clients if o != client) for client, others in whole.items())
    counts = dict.fromkeys(itertools.combinations(clients, 2), 0)
    for seed in range(400):
        for client, others in neighbours_by_client(clients, 4, seed.to_bytes(2, "big")).items():
            for other in others:
                if client < other:
                    counts[client, other] += 1
    expected = 400 * 4 / 39
    deviation = math.sqrt(expected * (1 - 4 / 39))
    assert max(abs(count - expected) for count in counts.values()) < 5 * deviation


@pytest.mark.parametrize(
    ("clients", "dropouts", "colluders", "sentence"),
    [
        (3, 0.34, 0.34, "could open single updates"),
        (10, 0.5, 0.0, "more than 10"),
        (2, 0.5, 0.0, "could be that of one client"),
        (1, 0.0, 0.0, "could be that of one client"),
        (10, -0.1, 0.0, "dropouts=-0.1"),
        (10, 0.1, 1.0, "colluders=1.0"),
    ],
)
def test_what_no_plan_can_bear_is_refused(clients, dropouts, colluders, sentence):
    with pytest.raises(FedloomError, match=sentence):
        plan_neighbours(clients, dropouts, colluders)


def test_a_share_counts_whole_clients():
    assert count_of(0.29, 100) == 29
    assert count_of(0.34, 3) == 1
    assert count_of(0.33, 3) == 0


def test_a_share_with_three_decimals_means_its_fraction():
    assert [count_of(0.333, clients) for clients in (3, 6, 30, 90, 300)] == [1, 2, 10, 30, 100]
    assert count_of(0.167, 6) == count_of(0.143, 7) == count_of(0.125, 8) == 1
    assert plan_neighbours(3, 0.333, 0.0) == plan_neighbours(3, 1 / 3, 0.0) == NeighbourPlan(2, 2)


@given(st.integers(2, 100_000), st.data())
def test_a_share_that_is_a_fraction_is_that_fraction_and_no_client_more(clients, data):
    number = data.draw(st.integers(0, clients - 1))
    assert count_of(number / clients, clients) == number
    if clients <= 100:
        assert count_of(round(number / clients, 3), clients) == number
