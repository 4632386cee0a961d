"""Random selection: exact numbers, no repeats, keyed by the round."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.selection.random import Random
from support.pools import Clients, pool


@given(st.integers(1, 300), st.floats(0.01, 1.0), st.integers(0, 5), st.integers(1, 9))
def test_a_round_has_the_right_number_of_different_clients(size, fraction, seed, number):
    places = Random(fraction)(pool(size, seed=seed, number=number)).places
    assert len(places) == len(set(places)) == Random(fraction).per_round(size)
    assert set(places) <= set(range(size))
    assert places == Random(fraction)(pool(size, seed=seed, number=number)).places


def test_fractions_round_up_and_every_client_has_its_turn():
    assert [Random(f).per_round(10) for f in (0.01, 0.1, 0.11, 1.0)] == [1, 1, 2, 10]
    assert Random(0.1).per_round(30) == 3
    assert set().union(*(Random(number=3)(pool(10, number=t)).places for t in range(60))) == set(range(10))


def test_nobody_is_asked_and_nothing_remembered():
    clients = Clients([1.0] * 10)
    assert Random(0.5)(pool(10, clients)).state == {}
    assert clients.asked == []


def test_more_clients_than_there_are_is_refused():
    with pytest.raises(FedloomError, match="number=11 per round, but there are only 10"):
        Random(number=11)(pool(10))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"fraction": 0.0}, "fraction=0.0: it must be above 0"),
        ({"fraction": 1.5}, "fraction=1.5: it must be above 0 and at most 1"),
        ({"number": 0}, "number=0: it must be at least 1"),
        ({"number": 2, "fraction": 0.5}, "give one"),
    ],
)
def test_impossible_numbers_are_refused(settings, sentence):
    with pytest.raises(FedloomError, match=sentence):
        Random(**settings)
