"""``fedloom run --explain`` shows the stations of a run, and trains nothing."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.cli.app import app
from support.command_line import json_output, output

PLAIN = ["run", "--task", "digits", "--clients", "5", "--explain"]


def test_a_plain_run_has_three_stations_and_the_clients(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [line.split()[0] for line in output(app, *PLAIN).splitlines() if line[:1].isupper()]
    assert [name for name in names if name in ("Keeping", "ReplyScreening", "Finiteness", "AskRows")] == [
        *("Keeping", "ReplyScreening", "Finiteness", "AskRows")
    ]
    assert list(tmp_path.iterdir()) == []  # nothing was trained or written


def test_machines_get_the_same_as_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = json_output(app, *PLAIN, "--method", "scaffold", "--set", 'channel=[{name="securesum"}]')
    assert [one["station"] for one in found["stations"]] == ["Keeping", "AskSum"]
    assert {"part": "securesum", "needs": "every client that is asked answers"} in found["relies_on"]


def test_a_run_that_is_refused_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fl.FedloomError, match="securesum lets only sums of replies leave, and ifca needs"):
        output(app, *PLAIN, "--method", "ifca", "--set", 'channel=[{name="securesum"}]')
