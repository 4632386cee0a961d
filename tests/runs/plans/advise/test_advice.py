"""How advice chooses, with planted scores."""

from __future__ import annotations

from zlib import crc32

import pytest

from fedloom.runs.plans.advise import candidates as c
from fedloom.runs.plans.advise.advice import Cost, picks
from fedloom.runs.plans.advise.halving import OVERALL, Budget, Outcome, RungPlan, Tournament

GROUPS = ("small", "big")
SAME = Cost(100.0, 100.0, 10.0)


def advice_on(scores, costs=None, tests=None, clients=30, anchors=(), seeds=5):
    """A one-rung tournament in which ``scores[name]`` are the group's means; clients and seeds hardly differ."""

    def outcome(table):
        def play(name, rounds=2, seed=0):  # noqa: ARG001
            groups = zip(GROUPS, table[name], strict=True)
            noise = 1e-5 * (crc32(f"{name} {seed}".encode()) % 7)
            return Outcome(
                {g: {f"{g}{k}": s + noise + 0.001 * (k % 5) for k in range(clients)} for g, s in groups}, 1.0
            )

        return play

    played = Tournament(list(scores), outcome(scores), Budget(1000), anchors).run([RungPlan(2, seeds, len(scores))])
    test = outcome(tests or scores)
    prices = {name: (costs or {}).get(name, SAME) for name in scores}
    sizes = {"small": [10, 20], "big": [100, 300]}
    return picks(played, prices, lambda name: [test(name, seed=seed) for seed in range(seeds)], c.method_of, sizes)


def test_each_group_gets_its_own_winner_and_all_together_the_least_regret():
    groups, overall, regrets = advice_on(
        {"fedavg lr=1": (0.9, 0.5), "fedper lr=1": (0.5, 0.9), "ditto lr=1": (0.8, 0.8), "local lr=1": (0.3, 0.3)},
        anchors=("local lr=1",),
    )
    assert [(pick.group, pick.use.candidate) for pick in groups] == [("small", "fedavg lr=1"), ("big", "fedper lr=1")]
    assert overall.use.candidate == "ditto lr=1"
    assert regrets == pytest.approx({"small": 0.1, "big": 0.1}, abs=1e-4)
    assert groups[0].runner_up.candidate == "ditto lr=1"
    assert min(groups[0].over_runner_up, groups[0].over_local) > 0.999
    assert (groups[1].clients, groups[1].sizes) == (2, (100, 300))
    assert (overall.group, overall.clients, overall.sizes) == (OVERALL, 4, (10, 300))


def test_the_runner_up_is_another_method_and_not_another_setting():
    groups, _, _ = advice_on({"fedprox:mu=1 lr=1": (0.9, 0.9), "fedprox lr=3": (0.8, 0.8), "fedper lr=1": (0.5, 0.5)})
    assert groups[0].runner_up.candidate == "fedper lr=1"


def test_training_alone_is_compared_with_but_is_no_runner_up():
    (small, _), overall, _ = advice_on({"local lr=1": (0.5, 0.6), "fedavg lr=1": (0.9, 0.5)}, anchors=("local lr=1",))
    assert small.runner_up is None
    assert small.local.candidate == "local lr=1"
    assert small.over_local > 0.999
    assert overall.use.candidate == "fedavg lr=1"


def test_level_candidates_are_named_and_the_clearly_cheaper_one_is_taken():
    scores = {"scaffold lr=1": (0.900, 0.9), "fedavg lr=1": (0.895, 0.5), "fedper lr=1": (0.897, 0.5)}
    dear = Cost(200.0, 200.0, 10.0)
    (small, _), _, _ = advice_on(scores, {"scaffold lr=1": dear}, clients=2)
    assert small.use.candidate == "scaffold lr=1"  # it is better by half a point with each seed: that is sure
    assert small.level == ()

    def unsure(name):
        swing = 0.1 if name.startswith("scaffold") else -0.1
        return [Outcome({"small": {str(k): scores[name][0] + swing * (-1) ** k for k in range(4)}})]

    played = Tournament(list(scores), lambda n, *_: unsure(n)[0], Budget(9)).run([RungPlan(2, 1, 3)])
    prices = {"scaffold lr=1": dear, "fedavg lr=1": SAME, "fedper lr=1": Cost(190.0, 190.0, 10.0)}
    (small,), _, _ = picks(played, prices, unsure, c.method_of, {"small": [1]})
    assert small.use.candidate == "fedavg lr=1"
    assert small.reason == "sends less"
    assert set(small.level) == {"scaffold lr=1", "fedper lr=1"}
    prices["fedavg lr=1"] = Cost(195.0, 195.0, 10.0)
    (small,), _, _ = picks(played, prices, unsure, c.method_of, {"small": [1]})
    assert (small.use.candidate, small.reason) == ("scaffold lr=1", "best")  # five per cent is not clearly cheaper


def test_a_lead_of_more_than_a_point_is_never_given_away():
    def noisy(name, *_):
        worth = {"ditto lr=1": 0.6, "local lr=1": 0.5}[name]
        return Outcome({"small": {str(k): worth + (k % 3 - 1) * (1 if name < "e" else -1) for k in range(6)}}, 1.0)

    played = Tournament(["ditto lr=1", "local lr=1"], noisy, Budget(9)).run([RungPlan(2, 1, 2)])
    prices = {"ditto lr=1": SAME, "local lr=1": Cost(0.0, 0.0, 10.0)}
    (pick,), _, _ = picks(played, prices, lambda name: [noisy(name)], c.method_of, {"small": [1]})
    assert pick.use.candidate == "ditto lr=1"
    assert pick.over_runner_up is None


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_make_nobody_sure(seeds):
    groups, overall, _ = advice_on(
        {"fedavg lr=1": (0.9, 0.9), "local lr=1": (0.1, 0.1)}, anchors=("local lr=1",), seeds=seeds
    )
    assert [pick.over_local for pick in (*groups, overall)] == [None] * 3


def test_how_sure_is_computed_on_test_data_and_the_choice_on_validation_data():
    groups, _, _ = advice_on(
        {"fedavg lr=1": (0.9, 0.9), "fedper lr=1": (0.8, 0.8)},
        tests={"fedavg lr=1": (0.5, 0.9), "fedper lr=1": (0.7, 0.8)},
    )
    assert [pick.use.candidate for pick in groups] == ["fedavg lr=1", "fedavg lr=1"]
    assert groups[0].over_runner_up < 0.001
    assert groups[1].over_runner_up > 0.999
    assert groups[0].use.valid == pytest.approx(0.902, abs=1e-4)
    assert groups[0].use.test == pytest.approx(0.502, abs=1e-4)
