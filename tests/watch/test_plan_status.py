"""What is said of a plan: its phase, what is wrong, and how long it will take, by hand-computed cases."""

from __future__ import annotations

import pytest

from fedloom.watch.plan_status import PAUSE, MemberStatus, PlanStatus

NOW = 1000.0


def plan(*members, kind="comparison", **more):
    return PlanStatus(kind, "cmp", "a title", members, **{"changed": NOW, **more})


def member(phase, label="fedavg", done=None, seconds=None, **more):
    return MemberStatus(label, 0, phase, round=done, rounds=10, round_seconds=seconds, **more)


def test_a_comparison_is_finished_when_its_runs_have_ended_and_advice_when_it_has_a_result():
    ended = member("finished"), member("stopped")
    assert plan(*ended).phase(NOW) == "finished"
    assert plan(*ended, member("waiting")).phase(NOW) == "waiting"
    assert plan(*ended, kind="advice").phase(NOW) == "waiting"  # what follows is not known yet
    assert plan(*ended, kind="advice", has_result=True).phase(NOW) == "finished"


def test_between_two_runs_a_plan_waits_and_after_a_while_it_counts_as_interrupted():
    between = plan(member("finished"), member("waiting"))
    assert between.phase(NOW + PAUSE - 1) == "waiting"
    assert between.trouble(NOW + PAUSE - 1) == ""
    assert between.phase(NOW + PAUSE + 1) == "interrupted"
    assert "fedloom resume cmp" in between.trouble(NOW + PAUSE + 1)


def test_the_time_that_is_left_is_that_of_all_rounds_over_as_many_runs_as_work():
    running = member("running", done=4, seconds=2.0), member("running", "local", done=9, seconds=1.0)
    # 6 rounds of 2 s, 1 of 1 s, 10 of fedavg, 10 of scaffold, which nobody has timed: the median of 2 and 1.
    waiting = member("waiting"), member("waiting", "scaffold")
    assert plan(*running, *waiting).seconds_left(NOW) == pytest.approx((12 + 1 + 20 + 15) / 2)
    # The longest of those that work is waited for, however many others there are.
    assert plan(member("running", done=1, seconds=10.0), running[1]).seconds_left(NOW) == pytest.approx(90)


def test_nothing_is_said_of_the_time_before_a_round_has_ended_and_where_nothing_works():
    assert plan(member("running")).seconds_left(NOW) is None
    assert plan(member("finished", done=10, seconds=1.0), member("waiting")).seconds_left(NOW) is None


def test_a_budget_ends_the_plan_that_has_one():
    budget = {"kind": "advice", "minutes": 2.0, "began": NOW - 30}
    assert plan(member("running", done=1, seconds=99.0), **budget).seconds_left(NOW) == pytest.approx(90)
    assert plan(member("running"), **budget).seconds_left(NOW + 100) is None  # it was continued later


def test_a_run_that_stalls_is_the_plans_trouble():
    assert plan(member("running", trouble="no round ended for 3 h")).trouble(NOW) == (
        "fedavg with seed 0: no round ended for 3 h"
    )
