"""A site whose clock is off signs by the server's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

from fedloom.deploy.server_clock import BEARABLE, ServerClock, request_time

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


def answer(date: str | None) -> SimpleNamespace:
    return SimpleNamespace(headers={"date": date} if date else {})


@pytest.mark.parametrize("minutes", [-60, -3, 3, 60])
def test_the_servers_time_is_learnt_from_any_answer_to_the_second(minutes):
    clock = ServerClock(lambda: NOON + timedelta(minutes=minutes))
    assert clock.now() == NOON + timedelta(minutes=minutes)
    clock.learn(answer(format_datetime(NOON, usegmt=True)))
    assert abs(clock.now() - NOON) <= timedelta(seconds=1)


def test_a_clock_that_agrees_is_left_alone():
    clock = ServerClock(lambda: NOON + BEARABLE)
    clock.learn(answer(format_datetime(NOON, usegmt=True)))
    assert clock.ahead == timedelta(0)


def test_a_clock_that_is_set_right_again_is_noticed():
    moment = [NOON + timedelta(minutes=3)]
    clock = ServerClock(lambda: moment[0])
    clock.learn(answer(format_datetime(NOON, usegmt=True)))
    moment[0] = NOON
    clock.learn(answer(format_datetime(NOON, usegmt=True)))
    assert abs(clock.now() - NOON) <= timedelta(seconds=1)


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_an_answer_without_a_date_teaches_nothing(date):
    clock = ServerClock(lambda: NOON)
    clock.learn(answer(date))
    assert clock.now() == NOON


def test_an_answer_has_the_time_of_its_request():
    assert request_time(SimpleNamespace(metadata=SimpleNamespace(created_at=NOON.timestamp()))) == NOON
