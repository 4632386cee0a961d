"""How many rounds fit is decided once, by what a few rounds took."""

from __future__ import annotations

import pytest

from fedloom.audits.of_run.play.pace import Pace, measure_pace, read_pace, write_pace
from fedloom.audits.of_run.play.subject import Subject
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.all_probes import PLAIN
from support.audits import TINY, clock_of_rounds


@pytest.mark.parametrize(
    ("seconds", "rounds"),
    [(1000, 40), (40 * 2 / 0.6, 40), (40 * 2 / 0.6 - 1, 20), (34, 10), (20, 5), (1, 2)],
)
def test_as_many_rounds_are_played_as_fit_into_the_share_of_the_budget(monkeypatch, seconds, rounds):
    clock = clock_of_rounds(monkeypatch)
    values = {**TINY, "rounds": 40}
    found = measure_pace(Trial(Subject(values), values, 0, 1), [PLAIN], 2, seconds, clock)
    assert found == Pace(rounds, 0.0, 1.0)


def test_it_is_kept(tmp_path):
    pace = Pace(4, 0.5, 0.25)
    assert read_pace(tmp_path) is None
    write_pace(tmp_path, pace)
    assert read_pace(tmp_path) == pace
    (tmp_path / "pace.json").write_text("{")
    assert read_pace(tmp_path) is None


def test_a_long_round_is_tried_once(monkeypatch):
    clock = clock_of_rounds(monkeypatch, seconds=10.0)
    values = {**TINY, "rounds": 40}
    found = measure_pace(Trial(Subject(values), values, 0, 1), [PLAIN], 1, 300, clock)
    assert clock.now == 10.0
    assert found == Pace(10, 0.0, 10.0)
