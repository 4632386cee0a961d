"""Beginning runs, one after another, and stopping, without anything running."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedloom.core.errors import FedloomError
from fedloom.deploy.operate import commands as operate
from fedloom.deploy.operate import play_run
from fedloom.deploy.operate.commands import stop
from fedloom.deploy.operate.run_queue import QUEUE, RunQueue
from fedloom.deploy.participant_folder import OUTCOME, RUN, SERVING
from fedloom.deploy.settings import ServerSettings, SiteSettings, to_toml
from support.waiting import LIMIT, wait_until


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "south"
    folder.mkdir()
    (folder / "site.toml").write_bytes(to_toml(SiteSettings(name="south", client=1)))
    return folder


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "server"
    (folder / RUN).mkdir(parents=True)
    (folder / "deploy.toml").write_bytes(to_toml(ServerSettings(sites=["north"], control_port=1, port=2)))
    return folder


def test_a_run_without_a_server_is_refused_with_the_command_to_start_it(server):
    pytest.importorskip("flwr", reason="Flower is not installed: no run is submitted")
    with pytest.raises(FedloomError, match=f"the server is not running: start it with  fedloom deploy server {server}"):
        operate.run(server, pytest.fail, pytest.fail)


# -- runs in line


@pytest.fixture
def superlink(monkeypatch):
    """A SuperLink whose runs go on until the test ends them; the runs that it was given."""
    pytest.importorskip("flwr", reason="Flower is not installed: no run is submitted")
    submitted = []

    def submit(folder):
        (folder / RUN).mkdir(exist_ok=True)
        (folder / RUN / "config.toml").write_text("")
        if not (folder / RUN / "name").exists():
            (folder / RUN / "name").write_text(str(len(submitted)))
        submitted.append((folder / RUN / "name").read_text())
        (folder / RUN / SERVING).write_text(json.dumps({"process": os.getpid()}))

    monkeypatch.setattr(operate, "wait_for_server", lambda _: None)
    monkeypatch.setattr(play_run, "wait_for_server", lambda _: None)
    monkeypatch.setattr(play_run, "_is_alive", lambda _: True)
    monkeypatch.setattr(play_run, "_submit", submit)
    return submitted


def end_run(server, **outcome):
    (server / RUN / OUTCOME).write_text(json.dumps(outcome or {"stopped": None}))


def name_of(folder):
    return (folder / "name").read_text()


def in_line(server):
    return [one.ticket for one in RunQueue(server).waiting()]


def test_new_runs_wait_for_the_one_before_them_and_begin_in_order(server, superlink):
    reported = []
    with ThreadPoolExecutor(3) as pool:

        def ask(new):
            return pool.submit(
                operate.run, server, lambda _: None, print, new=new, report=lambda run: reported.append(name_of(run))
            )

        asked = [ask(False)]
        wait_until(lambda: superlink == ["0"])
        for number in (1, 2):
            asked.append(ask(True))
            wait_until(lambda number=number: len(in_line(server)) == number)
        assert superlink == ["0"]
        for number in range(3):
            wait_until(lambda number=number: superlink == [str(one) for one in range(number + 1)])
            assert len(in_line(server)) == 2 - number
            end_run(server)
        for one in asked:
            one.result(LIMIT)
    assert sorted(reported) == ["0", "1", "2"]  # each has seen its own run's folder
    assert [name_of(server / name) for name in ("run-1", "run-2", "run")] == ["0", "1", "2"]
    assert not (server / QUEUE).exists()


def test_the_line_is_there_after_a_restart_and_whoever_continues_the_run_plays_it(server, superlink):
    (server / RUN / "config.toml").write_text("")
    (server / RUN / "name").write_text("interrupted")
    RunQueue(server).join(at_once=False)
    RunQueue(server).join(at_once=False)
    with ThreadPoolExecutor(1) as pool:
        one = pool.submit(operate.run, server, lambda _: None, print)
        for number, expected in enumerate((["interrupted"], ["interrupted", "1"], ["interrupted", "1", "2"])):
            wait_until(lambda expected=expected: superlink == expected)
            assert len(in_line(server)) == 2 - number
            end_run(server)
        one.result(LIMIT)
    assert [name_of(server / name) for name in ("run-1", "run-2", "run")] == ["interrupted", "1", "2"]


def test_a_run_that_stops_with_an_error_does_not_hold_up_the_line(server, superlink):
    said = []
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(operate.run, server, said.append, print)
        wait_until(lambda: superlink == ["0"])
        second = pool.submit(operate.run, server, said.append, print, new=True)
        wait_until(lambda: len(in_line(server)) == 1)
        end_run(server, error="too few sites")
        with pytest.raises(FedloomError, match="too few sites"):
            first.result(LIMIT)
        wait_until(lambda: superlink == ["0", "1"])
        end_run(server)
        second.result(LIMIT)
    assert "A run is going on: this one is in line, behind 1. Ctrl-C leaves the line." in said


def test_without_a_run_a_new_one_begins_at_once_also_instead_of_an_unfinished_one(server, superlink):
    (server / RUN / "config.toml").write_text("")
    (server / RUN / "name").write_text("unfinished")
    with ThreadPoolExecutor(1) as pool:
        one = pool.submit(operate.run, server, lambda _: None, print, new=True)
        wait_until(lambda: superlink == ["0"])
        end_run(server)
        one.result(LIMIT)
    assert name_of(server / "run-1") == "unfinished"


def test_a_run_that_nobody_watches_is_continued_by_who_waits_for_it(server, superlink):
    (server / RUN / "config.toml").write_text("")
    (server / RUN / "name").write_text("abandoned")
    RunQueue(server).join(at_once=False)
    said = []
    with ThreadPoolExecutor(1) as pool:
        one = pool.submit(operate.run, server, said.append, print, new=True)
        wait_until(lambda: superlink == ["abandoned"])
        end_run(server, error="too few sites")
        for expected in (["abandoned", "1"], ["abandoned", "1", "2"]):
            wait_until(lambda expected=expected: superlink == expected)
            end_run(server)
        one.result(LIMIT)
    assert "The run before stopped: too few sites" in said


def test_who_gives_up_leaves_the_line(server, superlink, monkeypatch):
    (server / RUN / "config.toml").write_text("")
    (server / RUN / SERVING).write_text(json.dumps({"process": os.getpid()}))

    def interrupt(*_):
        assert len(in_line(server)) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(operate, "play", interrupt)
    with pytest.raises(KeyboardInterrupt):
        operate.run(server, lambda _: None, print, new=True)
    assert in_line(server) == []
    assert superlink == []


# -- stopping


def test_stopping_what_does_not_run_does_nothing(site, server):
    before = sorted(path for folder in (site, server) for path in folder.rglob("*"))
    assert not stop(site)
    assert not stop(server)
    assert sorted(path for folder in (site, server) for path in folder.rglob("*")) == before


def test_a_folder_of_nobody_is_named(tmp_path):
    with pytest.raises(
        FedloomError, match=r"is not a participant's folder: it has neither deploy\.toml nor site\.toml"
    ):
        stop(tmp_path)
