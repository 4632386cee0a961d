"""A site whose clock is off signs by the server's clock."""

from __future__ import annotations

import socket
import ssl
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest

from fedloom.deploy.flower.server_clock import BACKOFF, BEARABLE, ServerClock, request_time
from support.waiting import LIMIT, wait_until

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


SKEWED = """
import sys
from datetime import timedelta
from flwr.supercore import date

here, off = date.now, timedelta(minutes=float(sys.argv.pop(1)))
date.now = lambda: here() + off
from pathlib import Path
from fedloom.deploy.flower.supernode import run_supernode
run_supernode(Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.xdist_group("deployment")
def test_a_real_superlink_accepts_nodes_whose_clocks_are_minutes_off_and_refuses_a_revoked_one(tmp_path):
    """Flower itself refuses a clock that is 5 seconds ahead or 305 behind."""
    pytest.importorskip("flwr", reason="Flower is not installed: no SuperLink is started")
    from fedloom.deploy.flower.control import SuperLinkControl, public_key
    from fedloom.deploy.flower.release import environment
    from fedloom.deploy.flower.superlink import superlink_command
    from fedloom.deploy.flower.supernode import NODE_FAILED, NODE_READY, supernode_command
    from fedloom.deploy.operate.admission import register_members
    from fedloom.deploy.operate.programs import is_listening, start_program, wait_until_ready
    from fedloom.deploy.provision import folders, membership
    from fedloom.deploy.settings import load_server

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    minutes = {"ahead": "3", "behind": "-10"}
    (tmp_path / "run.toml").write_text('[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n')
    folders.init(tmp_path / "run.toml", tmp_path / "d", list(minutes), proxy=False, port=port)
    server = tmp_path / "d/server"
    link = start_program(
        "link", superlink_command(server), tmp_path / "link.log", environment(server / "flower"), server
    )
    programs = [link]
    try:
        wait_until_ready(link, lambda: is_listening(port), str)
        control = SuperLinkControl(server)
        register_members(server, load_server(server), control)
        for name, off in minutes.items():
            site = tmp_path / "d" / name
            command = supernode_command(site)
            command = [command[0], "-c", SKEWED, off, command[-1]]
            programs.append(start_program(name, command, tmp_path / f"{name}.log", environment(site / "flower"), site))
        for node in programs[1:]:
            wait_until_ready(node, lambda node=node: NODE_READY in node.output(), str, NODE_FAILED)
        assert [one.online for one in control.nodes()] == [True, True]
        membership.renew(server, tmp_path / "d/authority")
        renewed = (server / "server.pem").read_text().strip()
        wait_until(
            lambda: ssl.get_server_certificate(("127.0.0.1", port)).strip() == renewed,
            "the SuperLink goes on with its old certificate",
        )
        membership.revoke("ahead", server)
        assert register_members(server, load_server(server), control) == 1
        assert [one.key for one in control.nodes()] == [public_key(server / "keys/behind.pub")]
        programs[1].process.wait(LIMIT)  # its next call is refused
        assert not programs[2].has_ended
    finally:
        for program in reversed(programs):
            program.stop()


class RefusalError(Exception):
    """What a server answers to a signature with another time."""


def test_a_server_whose_time_never_stands_still_is_not_followed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, waits, calls = ServerClock(lambda: datetime.now(UTC)), list[float](), list[int]()
    monkeypatch.setattr(time, "sleep", waits.append)

    def call() -> None:
        calls.append(1)
        clock.ahead += timedelta(minutes=1)  # each refusal has another Date
        raise RefusalError

    with pytest.raises(RefusalError):
        clock.retry(call, RefusalError)
    assert waits == list(BACKOFF)
    assert len(calls) == len(BACKOFF) + 1


def test_a_call_is_signed_anew_with_the_time_that_its_refusal_taught() -> None:
    clock, calls = ServerClock(lambda: datetime.now(UTC)), list[timedelta]()

    def call() -> str:
        calls.append(clock.ahead)
        if len(calls) == 1:
            clock.ahead = timedelta(minutes=3)
            raise RefusalError
        return "connected"

    assert clock.retry(call, RefusalError) == "connected"
    assert calls == [timedelta(0), timedelta(minutes=3)]


def test_a_refusal_that_teaches_nothing_counts_at_once() -> None:
    clock, calls = ServerClock(lambda: datetime.now(UTC)), list[int]()

    def call() -> None:
        calls.append(1)
        raise RefusalError

    with pytest.raises(RefusalError):
        clock.retry(call, RefusalError)
    assert calls == [1]
