"""RAWCS: who is eligible, who is drawn, who fails, and when there is no battery left."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.errors import FedloomError, Stopped
from fedloom.core.objective import SquaredError
from fedloom.core.task import Task
from fedloom.data.federation import Federation
from fedloom.selection import rawcs
from fedloom.selection.devices import Devices
from fedloom.selection.rawcs import ARRIVES, LEVELS, RAWCS, scale_to
from support.pools import Clients, pool, same
from support.synthetic import federation, mlp


class Links:
    """Link qualities as given, one row per attempt."""

    def __init__(self, rows):
        self.rows = list(rows)

    def random(self, size):
        assert len(self.rows[0]) == size
        return np.array(self.rows.pop(0))


@dataclass(frozen=True)
class Linked(fl.Pool):
    """A pool whose links are given."""

    links: tuple = ()

    def generator(self, purpose, number=None):
        return Links(self.links) if purpose == "links" else super().generator(purpose, number)


def devices(level=0.9, seconds=4.0, clients=4):
    """Equal devices of 50 kJ, unless some are told apart by lists."""
    level, seconds = (np.broadcast_to(np.array(x, dtype=float), clients) for x in (level, seconds))
    whole = np.full(clients, 50_000.0)
    return Devices(whole, whole * level, np.full(clients, 3.0), seconds - 2.0, np.full(clients, 2.0))


@pytest.fixture
def choose(monkeypatch):
    """A choice of given devices over given links in a later round."""

    def choose_on(some, links, level="high", number=2, clients=None, **settings):
        monkeypatch.setattr(rawcs, "draw_devices", lambda *_: some)
        usual = pool(len(some.capacity), clients, number=number)
        return RAWCS(level, **settings)(Linked(**vars(usual), links=links))

    return choose_on


def everybody(choice):
    return sorted(choice.places + choice.lost)


def test_an_eligible_device_has_battery_speed_and_link_to_spare(choose):
    """Whoever is drawn in many rounds is exactly who meets the level's three bounds."""
    some = devices(level=[0.9, 0.3, 0.9, 0.9], seconds=[2.0, 2.0, 6.0, 10.0])  # of the slowest: 0.2, 0.2, 0.6, 1
    links = [1.0, 1.0, 1.0, 1.0]
    drawn = {level: set() for level in LEVELS}
    for number in range(2, 40):
        for level, seen in drawn.items():
            seen.update(everybody(choose(some, [links], level, number)))
    assert drawn == {"high": {0, 1, 2, 3}, "medium": {0}, "low": {0}}


def test_the_chance_to_be_drawn_is_one_minus_cost_to_the_power_of_what_accuracy_lacks(choose):
    accuracy, link, rounds = [0.0, 0.0, 0.5, 0.75, 1.0], 0.6, 1500
    some, clients = devices(level=0.8, clients=5), Clients([1.0] * 5, accuracy)
    cost = 0.33 * ((1 - 0.8) + 1.0 + (1 - link))
    count = np.zeros(5)
    for number in range(2, rounds + 2):  # when chance draws nobody it is the first that takes part
        count[choose(some, [[link] * 5], number=number, clients=clients, fraction=0.01).places] += 1
    for place in (1, 2, 3):
        p = 1 - cost ** (1 - accuracy[place])
        assert abs(count[place] - rounds * p) < 3.5 * math.sqrt(rounds * p * (1 - p))
    assert count[4] == 0  # a perfect model has nothing to learn there


def test_if_chance_draws_nobody_the_least_accurate_share_takes_part(choose):
    clients = Clients([1.0] * 4, [1.0, 1.0, 1.0, 1.0])
    assert choose(devices(), [[0.9] * 4], clients=clients).places == [0, 1, 2]  # 0.7 of 4, of equals the first
    assert choose(devices(), [[0.9] * 4], clients=clients, fraction=0.25).places == [0]


def test_if_nobody_is_eligible_the_least_accurate_with_battery_take_part(choose):
    some, links = devices(level=[0.9, 0.9, 0.2, 0.9]), [[0.4, 0.3, 0.4, 0.3]]
    choice = choose(some, links, "low", clients=Clients([1.0] * 4, [0.8, 0.1, 0.0, 0.9]))
    assert choice.places == [1]  # 0.3 of three


def test_in_the_first_round_a_random_share_takes_part_unasked(choose):
    clients = Clients([1.0] * 20)
    for level, number in (("high", 14), ("medium", 10), ("low", 6)):
        seconds = [4.0] * 20
        seconds[0] = 400.0  # makes the others quick enough for every level
        choice = choose(devices(seconds=seconds, clients=20), [[0.9] * 20], level, number=1, clients=clients)
        assert len(choice.places) == number
    assert clients.asked == []


def test_uploads_over_weak_links_fail_and_cost_battery_all_the_same(choose):
    clients = Clients([1.0] * 4, [1.0] * 4)  # the fallback takes the first three
    choice = choose(devices(), [[ARRIVES - 0.01, 0.9, ARRIVES, 0.9]], clients=clients)
    assert (choice.places, choice.lost) == ([1, 2], [0])
    work = 3.0 * 2 + 2.22 * 2
    left = choice.state["battery"].tolist()
    assert left == pytest.approx([45_000 - work] * 3 + [45_000 - 0.1 * 4.0])


def test_if_all_uploads_fail_the_server_tries_again(choose):
    clients = Clients([1.0] * 4, [1.0] * 4)
    choice = choose(devices(), [[0.1] * 4, [0.9, 0.9, 0.1, 0.9]], clients=clients)
    assert (choice.places, choice.lost) == ([0, 1], [2])
    work = 3.0 * 2 + 2.22 * 2
    assert choice.state["battery"].tolist() == pytest.approx([45_000 - 2 * work] * 3 + [45_000 - 0.1 * 8.0])


def test_a_run_without_battery_ends_with_a_sentence(choose):
    with pytest.raises(Stopped, match="no device has battery left in round 7: level 'low' keeps 45% of each"):
        choose(devices(level=0.45), [[0.9] * 4], "low", number=7)


def test_groups_and_tasks_without_accuracy_are_refused():
    with pytest.raises(
        FedloomError, match=r"rawcs selects single devices, .* fedseq selects groups of clients: use random"
    ):
        fl.run(Task("own", federation([20, 9]), mlp()), "fedseq", rounds=1, selection="rawcs")
    with pytest.raises(FedloomError, match="fraction=2"):
        RAWCS(fraction=2)
    parts = federation([20, 9])
    columns = {"x": parts.columns["x"], "y": parts.columns["x"][:, :5]}
    numbers = Federation(columns, parts.train, parts.test, parts.valid, 0)
    with pytest.raises(FedloomError, match="weighs devices by accuracy, but this task has squared_error"):
        fl.run(Task("own", numbers, mlp(), SquaredError()), rounds=1, selection="rawcs")


def test_the_same_round_gives_the_same_choice_and_batteries_only_fall():
    state, before = {}, None
    for number in range(1, 30):
        clients = Clients([1.0] * 20, [0.3] * 20)
        one, other = (RAWCS("medium")(pool(20, clients, number=number, state=state)) for _ in range(2))
        assert (one.places, one.lost) == (other.places, other.lost)
        assert same(one.state, other.state)
        assert before is None or bool((one.state["battery"] < before).all())
        state, before = one.state, one.state["battery"]


def mean_number_selected(level, seed, sizes, rounds=100):
    """The mean number whose uploads arrive while accuracy rises towards 0.5."""
    state, count = {}, 0
    for number in range(1, rounds + 1):
        clients = Clients([1.0] * 20, [0.5 * (1 - math.exp(-number / 20))] * 20)
        choice = RAWCS(level)(pool(sizes, clients, seed=seed, number=number, state=state))
        state, count = choice.state, count + len(choice.places)
    return count / rounds


@pytest.mark.slow
def test_about_7_and_4_and_3_of_20_devices_take_part_at_the_three_levels():
    """With the authors' own 20 devices it is 6.9, 4.5 and 3.1; here each seed draws others."""
    uneven = [(np.random.default_rng(seed).exponential(1000, 20) + 10).astype(int).tolist() for seed in range(8)]
    sizes = [*uneven, *[[1000] * 20] * 8]
    mean = {
        level: np.mean([mean_number_selected(level, seed, some) for seed, some in enumerate(sizes)])
        for level in ("high", "medium", "low")
    }
    assert mean["high"] > mean["medium"] > mean["low"]
    assert mean["high"] == pytest.approx(6.9, abs=0.7)
    assert mean["medium"] == pytest.approx(4.5, abs=1.2)
    assert mean["low"] == pytest.approx(3.1, abs=0.7)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=30).filter(lambda chance: max(chance) > 1e-3),
    st.floats(0.5, 20),
)
@example([1.0], 0.5)  # a certain device is scaled like the others
@example([1.0, 1.0, 0.5], 1.0)
def test_scaled_probabilities_keep_their_order_and_sum_to_the_expected_number(chance, expected):
    before = np.where(np.array(chance) > 1e-3, chance, 0.0)
    after = scale_to(before, expected)
    assert ((after >= 0) & (after <= 1 + 1e-12)).all()
    assert ((after > 0) == (before > 0)).all()
    assert after.sum() == pytest.approx(min(expected, (before > 0).sum()))
    assert (np.diff(after[np.argsort(before)]) >= -1e-12).all()


def test_about_the_expected_number_of_devices_is_drawn(choose):
    """The cells of the document imply 5.3 devices of 20 per round at level high."""
    clients, drawn = 20, []
    asked = Clients([1.0] * clients, [0.5] * clients)
    for number in range(2, 202):
        links = [np.full(clients, 0.5)] * 9
        choice = choose(devices(clients=clients), links, number=number, clients=asked, expected=5.3)
        drawn.append(len(choice.places))
    assert abs(np.mean(drawn) - 5.3) < 0.6  # the standard error is 0.14
