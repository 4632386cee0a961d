"""Oort: new clients are tried, hard ones come again, and old ones are not forgotten."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.selection.oort import Oort
from support.pools import Clients, pool, same
from support.synthetic import federation, mlp


def state_of(utility, last):
    return {"utility": torch.tensor(utility), "last": torch.tensor(last)}


@given(st.integers(1, 40), st.floats(0.05, 1.0), st.integers(0, 5))
def test_every_round_has_the_right_number_of_different_clients(size, fraction, seed):
    selector, state, clients = Oort(fraction), {}, Clients([float(k) for k in range(1, size + 1)])
    for number in range(1, 6):
        choice = selector(pool(size, clients, seed=seed, number=number, state=state))
        assert len(choice.places) == len(set(choice.places)) == selector.per_round(size)
        assert set(choice.places) <= set(range(size))
        assert clients.asked[-1:] in ([], [choice.places])
        state = choice.state


def test_at_first_everybody_is_new_and_only_the_chosen_report():
    clients = Clients([1.0, -2.0, 3.0, 4.0])
    choice = Oort(number=2)(pool([10, 20, 30, 40], clients))
    assert clients.asked == [choice.places]
    utility = [10.0, 40.0, 90.0, 160.0]  # samples times the size of the loss
    for place in range(4):
        here = place in choice.places
        assert choice.state["utility"][place] == (utility[place] if here else 0)
        assert choice.state["last"][place] == (1 if here else 0)


def test_the_share_of_new_clients_falls_from_nine_tenths_to_a_fifth():
    tried = state_of([1.0] * 50 + [0.0] * 50, [1.0] * 50 + [0.0] * 50)
    for number in (2, 20, 60, 100, 1000):
        places = Oort(number=20)(pool(100, number=number, state=tried)).places
        new = sum(place >= 50 for place in places)
        assert new == round(20 * max(0.2, 0.9 * 0.98**number))


def test_if_all_are_tried_the_largest_utilities_come_again():
    state = state_of([1.0, 9.0, 2.0, 8.9, 0.5, 3.0], [1.0] * 6)
    for number in range(2, 40):
        assert sorted(Oort(number=2)(pool(6, number=number, state=state)).places) == [1, 3]


def test_one_client_far_above_the_rest_is_clipped_to_the_95th_percentile():
    """Clipped, 20 clients of utility 100 and one of a million are all the same; so each has its turn."""
    state = state_of([1.0] * 10 + [100.0] * 20 + [1e6], [1.0] * 31)
    seen = set()
    for number in range(2, 200):
        seen.update(Oort(number=1, epsilon=0.0, epsilon_min=0.0)(pool(31, number=number, state=state)).places)
    assert seen == set(range(10, 31))


def test_of_equal_utilities_the_one_that_took_part_long_ago_comes_first():
    state = state_of([5.0, 5.0], [99.0, 1.0])
    bonus = [math.sqrt(0.1 * math.log(100) / last) for last in (99, 1)]
    assert bonus[0] < 0.95 * bonus[1]
    for seed in range(20):
        assert Oort(number=1)(pool(2, seed=seed, number=100, state=state)).places == [1]


def test_when_everybody_takes_part_nobody_is_asked():
    clients = Clients([1.0] * 3)
    assert Oort()(pool(3, clients)).places == [0, 1, 2]
    assert clients.asked == []


def test_the_same_round_gives_the_same_choice():
    state = state_of([float(k) for k in range(10)] + [0.0] * 10, [1.0] * 10 + [0.0] * 10)
    one, other = (Oort(number=6)(pool(20, seed=2, number=5, state=state)) for _ in range(2))
    assert one.places == other.places
    assert same(one.state, other.state)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epsilon": 1.5}, "epsilon=1.5"),
        ({"epsilon": 0.1}, "epsilon_min=0.2"),
        ({"decay": 0.0}, "decay=0.0"),
        ({"fraction": 0.0}, "fraction=0.0"),
    ],
)
def test_impossible_settings_are_refused(settings, sentence):
    with pytest.raises(FedloomError, match=sentence):
        Oort(**settings)


def test_in_a_run_all_clients_are_tried_before_long():
    task = fl.task_of(federation([20, 9, 14, 11, 16, 12]), mlp(hidden=4))
    history = fl.run(task, rounds=6, selection={"name": "oort", "number": 2}, eval_every=0)
    assert set().union(*(record["selected"] for record in history.records)) == set(range(6))
