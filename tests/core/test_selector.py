"""What a selector may answer, and a selector of one's own in a run."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError, Stopped
from fedloom.core.selector import Choice, check_choice
from support.pools import pool
from support.synthetic import federation, mlp

MINE = """
from dataclasses import dataclass
import torch
from fedloom import Choice

@dataclass(frozen=True)
class Answers:
    places: tuple[int, ...] = (2, 0)

    def __call__(self, pool):
        return Choice(list(self.places))

@dataclass(frozen=True)
class Turns:
    step: int = 1

    def __call__(self, pool):
        turn = pool.state.get("turn", torch.tensor(0))
        return Choice([int(turn) % pool.size], {"turn": turn + self.step})

class NoDataclass:
    def __call__(self, pool):
        return Choice([0])

@dataclass(frozen=True)
class NotCallable:
    pass

@dataclass(frozen=True)
class Number:
    def __call__(self, pool):
        return 3
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "my_file.py").write_text(MINE)
    return f"{tmp_path}/my_file.py"


def small():
    return fl.task_of(federation([20, 9, 14]), mlp(hidden=4))


def run(selection, **settings):
    return fl.run(small(), rounds=3, selection=selection, **{"eval_every": 0, **settings})


def test_a_choice_comes_back_in_order_and_as_plain_numbers():
    choice = check_choice(Choice(list(np.array([4, 1])), {}, list(np.array([3, 0]))), pool(5), object())
    assert (choice.places, choice.lost) == ([1, 4], [0, 3])
    assert all(type(place) is int for place in choice.places + choice.lost)


def test_randomness_has_a_purpose_and_a_round_of_its_own():
    first, second = pool(3, number=1), pool(3, number=2)
    draw = first.generator("a").random()
    assert draw == first.generator("a").random()
    assert len({draw, first.generator("b").random(), second.generator("a").random()}) == 3
    assert second.generator("a", 1).random() == draw


@pytest.mark.parametrize(
    ("places", "lost"), [([1, 1], []), ([5], []), ([-1, 2], []), ([1], [1]), ([1], [7]), ([0], [2, 2])]
)
def test_places_that_are_strange_or_named_twice_are_refused(places, lost):
    with pytest.raises(FedloomError, match="it must name places between 0 and 4, each once"):
        check_choice(Choice(places, {}, lost), pool(5), object())


def test_a_selector_of_ones_own_is_named_by_its_file(mine):
    history = run({"name": f"{mine}:Answers"})
    assert [record["selected"] for record in history.records] == [[0, 2]] * 3
    assert history.config["selection"] == {"name": f"{mine}:Answers", "places": (2, 0)}
    assert run({"name": f"{mine}:Answers", "places": [1]}).records[-1]["selected"] == [1]


@pytest.mark.slow
def test_a_selector_of_ones_own_is_found_again_by_another_process(mine, tmp_path):
    whole = fl.run(
        "digits", rounds=3, selection={"name": f"{mine}:Turns", "step": 2}, eval_every=0, out=tmp_path / "run"
    )
    assert [record["selected"] for record in whole.records] == [[0], [2], [4]]
    code = f"import fedloom as fl; print(len(fl.resume({str(tmp_path / 'run')!r}).records))"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout == "3\n"


def test_nobody_ends_the_run_and_keeps_what_was_measured(mine):
    history = run({"name": f"{mine}:Answers", "places": []}, eval_every=1)
    assert history.stopped == "selection 'answers' chose no client in round 1: a round needs at least one client."
    assert len(history.records) == 1
    with pytest.raises(Stopped):
        check_choice(Choice([]), pool(5), object())


@pytest.mark.parametrize(
    ("selection", "sentence"),
    [
        ({"name": "Answers", "places": [1, 1]}, r"returned \[1, 1\] in round 1: it must name places between 0 and 2"),
        ({"name": "Answers", "places": [3]}, r"returned \[3\] in round 1: it must name places between 0 and 2"),
        ({"name": "Answers", "place": [3]}, "unknown key in selection Answers: 'place'. Did you mean 'places'"),
        ({"name": "NoDataclass"}, "write @dataclass above the class"),
        ({"name": "NotCallable"}, "a selector needs a method __call__"),
        ({"name": "Number"}, "returned int: it must return a fedloom.Choice"),
        ({"name": "Nothing"}, "has no class Nothing"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_selector_that_answers_nonsense_gets_its_sentence(mine, selection, sentence):
    with pytest.raises(FedloomError, match=sentence):
        run({**selection, "name": f"{mine}:{selection['name']}"})


def test_an_object_that_is_no_selector_is_refused():
    with pytest.raises(FedloomError, match="selection=3: a selector needs a method __call__"):
        run(3)
    with pytest.raises(FedloomError, match=r"unknown selection 'randon'\. Did you mean 'random'"):
        run("randon")


def test_a_choice_of_fewer_clients_than_the_aggregator_needs_ends_the_run_before_the_round(mine):
    """A selector of one's own, and groups of clients: what is counted is what the aggregator gets."""
    with pytest.warns(fl.StoppedWarning):
        history = run({"name": f"{mine}:Answers"}, aggregation="median")
    assert history.stopped == (
        "selection 'answers' chose 2 of 3 clients in round 1, but the run's aggregator needs at least 3: select more, "
        "or use another aggregator."
    )
    assert not [record for record in history.records if record["round"]]
    with pytest.raises(Stopped, match=r"chose 2 of 4 groups of clients in round 1, .* at least 5"):
        check_choice(Choice([0, 1]), replace(pool(4), grouped=True, least=5), object())
