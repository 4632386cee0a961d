"""A trial ends when there is no time, and a search that nobody can stop is tried out before it is begun."""

from __future__ import annotations

import pytest

from fedloom.audits.of_run.play.subject import OutOfTime, Subject
from fedloom.audits.of_run.play.trial import Trial
from support.audits import TINY


@pytest.mark.parametrize(("left", "fits"), [(31.0, True), (29.0, False)])
def test_a_pilot_says_whether_all_of_it_fits(left, fits):
    trial, clock = Trial(Subject(TINY), TINY, 0, 1), [left]
    trial.left = lambda: clock[0]

    def pilot():
        clock[0] -= 3.0  # then nine times as much has to fit into what is left

    if fits:
        trial.check_time(9, pilot)
    else:
        with pytest.raises(OutOfTime):
            trial.check_time(9, pilot)


def test_what_a_pilot_has_to_import_is_not_multiplied():
    trial, clock, seconds = Trial(Subject(TINY), TINY, 0, 1), [31.0], [20.0, 1.0]
    trial.left = lambda: clock[0]

    def pilot():
        clock[0] -= seconds.pop(0)

    trial.check_time(9, pilot)  # 9 of the 10 seconds that are left
    assert not seconds


def test_a_run_that_a_probe_plays_itself_is_ended_by_its_observer():
    trial = Trial(Subject(TINY), TINY, 0, 1)
    trial.watch({})
    trial.left = lambda: 0.0
    with pytest.raises(OutOfTime):
        trial.watch({})
