"""Random selection: exact numbers, no repeats, keyed by the round."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.errors import FedloomError
from fedloom.selection import Random


@given(st.integers(1, 300), st.floats(0.01, 1.0), st.integers(0, 5), st.integers(1, 9))
def test_a_round_has_the_right_number_of_different_clients(clients, fraction, seed, number):
    chosen = Random(fraction)(clients, seed, number)
    assert len(chosen) == len(set(chosen)) == Random(fraction).per_round(clients)
    assert chosen == sorted(chosen)
    assert set(chosen) <= set(range(clients))
    assert chosen == Random(fraction)(clients, seed, number)


def test_fractions_round_up_and_every_client_has_its_turn():
    assert [Random(f).per_round(10) for f in (0.01, 0.1, 0.11, 1.0)] == [1, 1, 2, 10]
    assert Random(0.1).per_round(30) == 3
    assert set().union(*(Random(number=3)(10, 0, t) for t in range(60))) == set(range(10))


def test_more_clients_than_there_are_is_refused():
    with pytest.raises(FedloomError, match="number=11 clients per round, but there are only 10"):
        Random(number=11)(10, 0, 1)
    with pytest.raises(FedloomError, match="fraction=0"):
        Random(0.0)
