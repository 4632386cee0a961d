"""The tournament, with a stand-in player whose scores and times are planted."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.runs.plans.advise.halving import (
    FEWEST,
    MOST_SEEDS,
    OVERALL,
    Budget,
    Outcome,
    RungPlan,
    Tournament,
    schedule,
)

GROUPS = ("small", "intermediate", "big")


@dataclass
class Player:
    """Plays a candidate in no time but on its own clock; ``worth[name]`` is its score in each group."""

    worth: dict[str, tuple[float, float, float]]
    per_round: float = 1.0
    fixed: float = 0.0
    slow: dict[str, float] = field(default_factory=dict)
    fails: dict[str, int] = field(default_factory=dict)
    known: set[tuple[str, int, int]] = field(default_factory=set)
    now: float = 0.0
    calls: list[tuple[str, int, int]] = field(default_factory=list)

    def __call__(self, name: str, rounds: int, seed: int) -> Outcome:
        self.calls.append((name, rounds, seed))
        seconds = self.fixed + rounds * self.slow.get(name, self.per_round)
        read = (name, rounds, seed) in self.known
        self.now += 0.0 if read else seconds
        failed = "it broke" if rounds >= self.fails.get(name, 1000) else None
        clients = {g: {f"{g}{c}": score for c in range(3)} for g, score in zip(GROUPS, self.worth[name], strict=True)}
        return Outcome({} if failed else clients, seconds, self.fixed, read, failed)


def tournament(player: Player, seconds: float = math.inf, anchors: tuple[str, ...] = ()) -> Tournament:
    return Tournament(list(player.worth), player, Budget(seconds, lambda: player.now), anchors)


def field_of(size: int) -> dict[str, tuple[float, float, float]]:
    """Candidates that are worth the less the later they come, the same in every group."""
    return {f"m{n:02d}": ((size - n) / size,) * 3 for n in range(size)}


def test_planted_winners_are_found_for_every_group_and_for_all() -> None:
    worth = field_of(40)
    worth["m31"] = (2.0, 0.0, 0.0)
    worth["m32"] = (0.0, 2.0, 0.0)
    worth["m33"] = (0.0, 0.0, 2.0)
    worth["m34"] = (1.5, 1.5, 1.5)
    played = tournament(Player(worth)).run(schedule(len(worth), 20))
    ranks = played.rankings()
    assert [ranks[group][0] for group in (*GROUPS, OVERALL)] == ["m31", "m32", "m33", "m34"]
    assert played.regrets("m34") == dict.fromkeys(GROUPS, 0.5)
    last = played.rungs[-1]
    assert (last.rounds, last.seeds) == (20, MOST_SEEDS)


def test_candidates_that_run_at_once_have_the_tournament_that_they_had_one_by_one() -> None:
    worth, steps = field_of(9), [RungPlan(2, 1, 9), RungPlan(4, 2, 4), RungPlan(4, 3, 2)]
    broken = {"m03": 4}
    one = tournament(Player(worth, fails=broken)).run(steps)
    loaded: list[int] = []
    player = Player(worth, fails=broken)
    both = Tournament(list(worth), player, Budget(math.inf, lambda: 0.0), at_once=2, load=loaded.append).run(steps)
    assert (both.rungs, both.rankings(), both.failed) == (one.rungs, one.rankings(), one.failed)
    assert player.calls == []  # they ran elsewhere
    assert set(loaded) == {0, 1, 2}


def test_a_rung_keeps_the_best_half_of_every_group_and_no_more() -> None:
    worth = {f"m{n}": (float(n), float(-n), float(n % 2)) for n in range(8)}
    player = Player(worth)
    tournament(player).run([RungPlan(2, 1, 8), RungPlan(4, 1, 2)])
    second = {name for name, rounds, _ in player.calls if rounds == 4}
    by_small, by_intermediate, by_big = {"m7", "m6"}, {"m0", "m1"}, {"m1", "m3"}
    worst_gap = {n: max(7 - n, n, 1 - n % 2) for n in range(8)}
    overall = {f"m{n}" for n in sorted(range(8), key=lambda n: (worst_gap[n], n))[:2]}
    assert second == by_small | by_intermediate | by_big | overall


def test_the_anchor_plays_every_rung_even_if_it_is_last() -> None:
    worth = {**field_of(16), "alone": (-1.0, -1.0, -1.0), "alone2": (-2.0, -2.0, -2.0)}
    played = tournament(Player(worth), anchors=("alone", "alone2")).run(schedule(len(worth), 20))
    assert all("alone" in rung.candidates for rung in played.rungs)
    assert "alone2" not in played.rungs[-1].candidates


def test_ties_go_to_whoever_was_named_first() -> None:
    worth = dict.fromkeys(("c", "b", "a", "d"), (0.5, 0.5, 0.5))
    played = tournament(Player(worth)).run([RungPlan(2, 1, 4), RungPlan(4, 1, 2)])
    assert played.rungs[-1].candidates == ("c", "b")
    assert all(names == ["c", "b"] for names in played.rankings().values())


def test_rounds_and_seeds_grow_and_candidates_halve() -> None:
    steps = schedule(60, 20)
    assert [step.rounds for step in steps][:4] == [3, 6, 12, 20]
    assert [step.keep for step in steps][:4] == [60, 30, 15, 8]
    for before, after in itertools.pairwise(steps):
        assert after.rounds >= before.rounds
        assert after.seeds >= before.seeds
        assert after.keep <= before.keep
        assert (after.rounds, after.seeds) != (before.rounds, before.seeds) or after.keep < before.keep
    assert (steps[-1].rounds, steps[-1].seeds, steps[-1].keep) == (20, MOST_SEEDS, FEWEST)
    assert [step.rounds for step in schedule(3, 1)] == [1] * MOST_SEEDS


def test_a_run_that_was_played_is_never_played_again() -> None:
    player = Player(field_of(12))
    tournament(player).run(schedule(12, 10))
    assert len(set(player.calls)) == len(player.calls)


@settings(deadline=None)
@given(
    candidates=st.integers(2, 40),
    rounds=st.integers(1, 40),
    seconds=st.floats(1, 2000),
    fixed=st.floats(0, 5),
    slowest=st.floats(0.1, 20),
)
def test_the_budget_is_never_exceeded_by_more_than_one_run(candidates, rounds, seconds, fixed, slowest) -> None:
    worth = field_of(candidates)
    slow = {name: slowest * (1 + n % 3) / 3 for n, name in enumerate(worth)}
    player = Player(worth, fixed=fixed, slow=slow)
    played = tournament(player, seconds).run(schedule(candidates, rounds))
    longest = max((outcome.seconds for outcome in played.outcomes.values()), default=0.0)
    assert player.now <= seconds + longest
    for rung in played.rungs:
        assert len(rung.candidates) == len(set(rung.candidates))
        assert all((n, rung.rounds, s) in played.outcomes for n in rung.candidates for s in range(rung.seeds))


def test_the_first_rung_leaves_two_thirds_of_the_time() -> None:
    player = Player(field_of(60))
    played = tournament(player, 90).run(schedule(60, 20))
    assert len(played.rungs[0].candidates) == 10  # of 3 seconds each: 30 of 90
    assert played.not_run == [f"m{n:02d}" for n in range(10, 60)]
    assert len(played.rungs) > 1


def test_a_short_budget_plays_fewer_candidates_rather_than_no_later_rung() -> None:
    long, short = (tournament(Player(field_of(16)), s).run(schedule(16, 16)) for s in (10_000, 200))
    assert len(long.rungs[1].candidates) == 8
    assert FEWEST <= len(short.rungs[1].candidates) < 8
    assert short.rungs[1].candidates == long.rungs[1].candidates[: len(short.rungs[1].candidates)]
    assert short.rungs[-1].rounds == 16


def test_a_rung_that_the_clock_cuts_counts_only_with_complete_leaders() -> None:
    worth = field_of(8)
    player = Player(worth)
    played = tournament(player, 100).run([RungPlan(2, 1, 8)])
    player.per_round = 8.0  # the machine has become four times as slow as it was when the rung was planned
    played.budget.seconds = player.now + 4 * 2 * 8 - 1
    complete, cut = played._run_rung(
        1, 2, RungPlan(2, 2, 6), played.leaders(played.rankings(), 6), played.budget.seconds
    )
    assert cut
    assert complete == ["m00", "m01", "m02", "m03"]
    assert played._complete_leaders(complete) == ["m00", "m01", "m02", "m03"]
    assert played._complete_leaders(["m00", "m01", "m03"]) == ["m00", "m01"]
    assert played._complete_leaders(["m00"]) == []


def test_the_result_stands_on_the_last_whole_rung_when_time_runs_out() -> None:
    player = Player(field_of(4))
    played = tournament(player, 30).run([RungPlan(2, 1, 4), RungPlan(1000, 1, 2)])
    assert [rung.rounds for rung in played.rungs] == [2]
    assert max(rounds for _, rounds, _ in player.calls) == 2


def test_what_fails_is_named_and_the_others_go_on() -> None:
    worth = field_of(6)
    played = tournament(Player(worth, fails={"m00": 1, "m01": 4})).run(schedule(6, 8))
    assert played.failed == {"m00": "it broke", "m01": "it broke"}
    assert played.rankings()["small"][0] == "m02"
    assert all("m00" not in rung.candidates for rung in played.rungs)


def test_a_tournament_in_which_all_fail_has_no_rung() -> None:
    worth = field_of(3)
    played = tournament(Player(worth, fails=dict.fromkeys(worth, 1))).run(schedule(3, 8))
    assert played.rungs == []
    assert set(played.failed) == set(worth)


def test_runs_that_are_read_cost_what_they_cost_and_the_tournament_repeats_itself() -> None:
    first = Player(field_of(30))
    one = tournament(first, 200).run(schedule(30, 20))
    second = Player(field_of(30), known=set(first.calls))
    two = tournament(second, 200).run(schedule(30, 20))
    assert second.now == 0.0
    assert two.rungs == one.rungs
    assert two.budget.seconds_spent == pytest.approx(one.budget.seconds_spent)


def test_more_minutes_go_on_where_fewer_ended() -> None:
    first = Player(field_of(30))
    tournament(first, 200).run(schedule(30, 20))
    second = Player(field_of(30), known=set(first.calls))
    longer = tournament(second, 400).run(schedule(30, 20))
    assert set(first.calls) & set(second.calls)
    assert 0 < second.now <= 400
    assert len(longer.rungs[0].candidates) >= 22


def test_a_candidate_whose_start_is_slow_is_not_taken_for_slow() -> None:
    player = Player(field_of(4), fixed=10.0, per_round=0.01)
    played = tournament(player, 10_000).run([RungPlan(2, 1, 4)])
    assert played._seconds(["m00"], RungPlan(200, 1, 1)) == pytest.approx(12.0)


def test_watchers_hear_of_every_run_before_it_is_played() -> None:
    player, heard = Player(field_of(5)), []
    played = tournament(player, 1000)
    played.watch = lambda move: heard.append((move.candidate, move.rounds, move.seed, len(player.calls)))
    played.run(schedule(5, 4))
    assert [(name, rounds, seed) for name, rounds, seed, _ in heard] == player.calls
    assert [done for *_, done in heard] == list(range(len(player.calls)))


def test_a_group_that_a_seed_does_not_have_is_judged_by_the_others() -> None:
    def play(name: str, rounds: int, seed: int) -> Outcome:  # noqa: ARG001
        score = {"a": 0.9, "b": 0.1}[name]
        return Outcome({"small": {"x": score}} | ({"big": {"y": score}} if seed else {}), 1.0)

    played = Tournament(["a", "b"], play, Budget(math.inf)).run([RungPlan(2, 2, 2)])
    assert played.score("a", "big") == 0.9
    assert played.rankings()["big"] == ["a", "b"]
