"""Starting a run and following it from its folder, without anything running."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedloom.core.errors import FedloomError
from fedloom.deploy.operate import play_run
from fedloom.deploy.operate.play_run import (
    OUTCOME,
    RUN,
    SERVING,
    STATUS,
    _follow,
    _is_alive,
    is_serving,
    play,
    read_json,
)
from fedloom.deploy.settings import ServerSettings, to_toml
from fedloom.runs.folder.record_tail import RecordTail
from support.waiting import LIMIT, wait_until


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "server"
    (folder / RUN).mkdir(parents=True)
    (folder / "deploy.toml").write_bytes(to_toml(ServerSettings(sites=["north"], control_port=1, port=2)))
    return folder


def lines(*records: dict) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


# -- small files


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff"])
def test_a_small_file_that_says_nothing_says_nothing(tmp_path, content):
    if content is not None:
        (tmp_path / "it.json").write_bytes(content)
    assert read_json(tmp_path / "it.json") == {}


# -- whether a server half is at work


def test_only_a_living_server_half_is_at_work(tmp_path):
    assert not is_serving(tmp_path)
    gone = subprocess.Popen(["/bin/sh", "-c", "exit 0"])
    gone.wait()
    (tmp_path / SERVING).write_text(json.dumps({"process": gone.pid}))
    assert not is_serving(tmp_path)
    (tmp_path / SERVING).write_text(json.dumps({"process": os.getpid()}))
    assert not is_serving(tmp_path)  # a process, but no server half: the number is somebody else's by now
    assert not _is_alive(gone.pid)


def test_a_run_is_followed_to_its_outcome(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(lines({"round": 0}, {"round": 1}))
    (tmp_path / STATUS).write_text(json.dumps({"waiting": "2 of 3 sites are connected"}))
    (tmp_path / OUTCOME).write_text(json.dumps({"stopped": None}))
    said, seen = [], []
    outcome = _follow(tmp_path, RecordTail(tmp_path / "metrics.jsonl"), said.append, seen.append)
    assert outcome == {"stopped": None}
    assert said == ["Waiting: 2 of 3 sites are connected."]
    assert [record["round"] for record in seen] == [0, 1]


def test_what_a_limit_cuts_of_a_site_is_said_at_the_terminal(tmp_path):
    reason = "announces 1,493 training samples; 529 of them count (max_share = 0.5)"
    remarks = [
        {"client": 0, "name": "north", "what": "claim", "reason": reason},
        {"client": 1, "name": "south", "what": "update", "reason": "moved by 9"},
    ]
    (tmp_path / "metrics.jsonl").write_bytes(lines({"round": 1, "remarks": remarks}))
    (tmp_path / OUTCOME).write_text(json.dumps({"stopped": None}))
    said: list[str] = []
    _follow(tmp_path, RecordTail(tmp_path / "metrics.jsonl"), said.append, lambda _: None)
    assert said == [f"From round 1 on, north {reason}."]


def test_a_server_half_that_died_has_no_outcome(tmp_path):
    gone = subprocess.Popen(["/bin/sh", "-c", "exit 0"])
    gone.wait()
    (tmp_path / SERVING).write_text(json.dumps({"process": gone.pid}))
    assert _follow(tmp_path, RecordTail(tmp_path / "none"), print, print) is None


def test_a_server_half_that_never_begins_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(play_run, "START_TIMEOUT", 0.05)
    assert _follow(tmp_path, RecordTail(tmp_path / "none"), print, print) is None


def test_a_server_half_that_dies_at_its_start_is_tried_twice_and_its_own_error_is_said(server, monkeypatch):
    pytest.importorskip("flwr", reason="Flower is not installed: no run is submitted")
    gone = subprocess.Popen(["/bin/sh", "-c", "exit 0"])
    gone.wait()
    log, said, submitted = server / "logs" / "superlink.log", [], []
    log.parent.mkdir()
    (server / "flower").mkdir()
    log.write_text("OSError: of last week\n")

    def submit(folder):
        submitted.append(folder)
        with open(log, "a") as file:
            file.write(f"Traceback:\nImportError: number {len(submitted)}\nINFO: a call\n")
        (folder / RUN / SERVING).write_text(json.dumps({"process": gone.pid, "starting": True}))

    monkeypatch.setattr(play_run, "wait_for_server", lambda _: None)
    monkeypatch.setattr(play_run, "_submit", submit)
    with pytest.raises(FedloomError, match=r"died at its start \(ImportError: number 2\): see .*superlink\.log\."):
        play(server, said.append, print)
    assert len(submitted) == 2
    assert said == [
        f"The server half of the run died at its start (ImportError: number 1): see {log}. It is tried once more."
    ]
    monkeypatch.setattr(play_run, "_submit", lambda folder: (folder / RUN / SERVING).write_text(
        json.dumps({"process": gone.pid, "starting": True})
    ))  # fmt: skip
    with pytest.raises(FedloomError, match="it printed no error"):  # what another start printed does not count
        play(server, said.append, print)


def test_two_who_watch_a_run_submit_it_once(server, monkeypatch):
    pytest.importorskip("flwr", reason="Flower is not installed: no run is submitted")
    (server / "flower").mkdir()
    run_id, came, following = [], [], []

    def follow(*arguments):
        following.append(arguments)
        return _follow(*arguments)

    def submit(folder):
        run_id.append(folder)
        wait_until(lambda: len(came) == 2)  # the other one is about to submit it, too
        (folder / RUN / SERVING).write_text(json.dumps({"process": os.getpid()}))

    monkeypatch.setattr(play_run, "wait_for_server", came.append)
    monkeypatch.setattr(play_run, "_is_alive", lambda _: True)
    monkeypatch.setattr(play_run, "_submit", submit)
    monkeypatch.setattr(play_run, "_follow", follow)
    with ThreadPoolExecutor(2) as pool:
        watching = [pool.submit(play, server, print, print) for _ in range(2)]
        wait_until(lambda: len(following) == 2)
        (server / RUN / OUTCOME).write_text(json.dumps({"stopped": None}))
        assert [watcher.result(LIMIT) for watcher in watching] == [None] * 2
    assert run_id == [server]
