"""What a page is sent: each round once, and everything again when the run went back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedloom.runs.folder.metrics_file import append_record
from fedloom.watch import status_reader
from fedloom.watch.live_events import LiveEvents
from fedloom.watch.status_reader import StatusReader
from support.watched_runs import CLIENTS, play, record, write_run


@pytest.fixture(autouse=True)
def always_anew(monkeypatch):
    monkeypatch.setattr(status_reader, "INTERVAL", -1.0)


def new(events: LiveEvents) -> dict[str, Any]:
    return {name: json.loads(data) for name, data in events.new()}


def test_a_page_gets_what_it_does_not_have(tmp_path):
    events = LiveEvents(StatusReader(write_run(tmp_path / "r", 2, of=9)))
    first = new(events)
    assert first["rounds"]["round"] == [0, 1, 2]
    assert first["status"]["status"]["phase"] == "interrupted"
    assert first["logs"] == {}
    assert new(events) == {}
    play(tmp_path / "r", [3])
    second = new(events)
    assert (second["rounds"]["first"], second["rounds"]["round"]) == (2, [2, 3])  # the last one again, with its time
    assert second["rounds"]["metrics"][CLIENTS][1] == pytest.approx(record(3)["metrics"][CLIENTS], rel=1e-5)
    assert second["status"]["status"]["round"] == 3


def test_a_page_that_opens_later_gets_everything(tmp_path):
    reader = StatusReader(write_run(tmp_path / "r", 2, of=9))
    new(LiveEvents(reader))
    assert new(LiveEvents(reader))["rounds"]["round"] == [0, 1, 2]


def test_after_a_resume_from_an_earlier_round_the_page_begins_anew(tmp_path):
    folder = write_run(tmp_path / "r", 1, of=9)
    left = {"client": 1, "name": "y", "what": "update", "reason": "not connected"}
    append_record(folder, record(2, excluded=[left]), 0.1)
    append_record(folder, record(3, excluded=[left]), 0.1)
    events = LiveEvents(StatusReader(folder))
    assert len(new(events)["rounds"]["left_out"]) == 2
    lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(b"".join(lines[:3]))
    play(folder, [3, 4])
    rounds = new(events)["rounds"]
    assert (rounds["first"], rounds["first_left_out"], rounds["round"]) == (0, 0, [0, 1, 2, 3, 4])
    assert rounds["left_out"] == [[2, "y", "update", "not connected"]]
