"""``fedloom advise`` as a person meets it."""

from __future__ import annotations

import json

import pytest

from fedloom.runs.plans.advise import advise as a
from fedloom.runs.plans.advise.halving import schedule

SMALL = [
    "--clients",
    "6",
    "--alpha",
    "0.5",
    "--rounds",
    "2",
    "--methods",
    "fedavg,fedper",
    "--minutes",
    "20",
    "--quiet",
]


@pytest.fixture(autouse=True)
def one_rung(monkeypatch):
    """A tournament of one rung, which is enough for what is said about it."""
    monkeypatch.setattr(a, "schedule", lambda *size: schedule(*size)[:1])


def without_time(message):
    return {**message, "seconds": 0}


@pytest.mark.slow
def test_advice_is_printed_as_text_and_left_as_json_and_a_page(fedloom, tmp_path):
    result = fedloom("advise", *SMALL, "--out", "a")
    assert result.returncode == 0, result.stderr
    assert "Small clients" in result.stdout
    assert "One method for all 6 clients" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100
    values = json.loads((tmp_path / "a" / "advice.json").read_text())
    again = json.loads(fedloom("advise", *SMALL, "--out", "a", "--json").stdout)
    assert without_time(again) == without_time(values)
    assert "Advice for digits" in (tmp_path / "a" / "report.html").read_text()
    assert values["overall"]["use"]["candidate"] in values["rungs"][-1]["candidates"]
    names = [pick["group"] for pick in values["groups"]]
    assert names == ["small", "intermediate", "big"]


@pytest.mark.slow
def test_an_advice_that_was_stopped_goes_on_by_the_same_command_and_by_resume(fedloom, tmp_path, monkeypatch):
    whole = json.loads(fedloom("advise", *SMALL, "--out", "whole", "--json").stdout)
    real, played = a.Screening.run_candidate, []

    def stop_in_fourth_run(self, *run):
        played.append(run)
        if len(played) == 4:
            raise KeyboardInterrupt
        return real(self, *run)

    monkeypatch.setattr(a.Screening, "run_candidate", stop_in_fourth_run)
    result = fedloom("advise", *SMALL, "--workers", 1, "--out", "cut")  # in this process, where it can be stopped
    assert result.returncode == 130
    assert "fedloom resume cut" in result.stderr
    assert len(list((tmp_path / "cut").glob("*-seed*"))) == 3
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "cut").rglob("metrics.jsonl")}
    monkeypatch.setattr(a.Screening, "run_candidate", real)
    values = json.loads(fedloom("resume", "cut", "--json").stdout)
    assert without_time({**values, "folder": "whole"}) == without_time(whole)
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_your_own_data_are_advised_on(fedloom, tmp_path):
    rows = "\n".join(f"{i % 7},{i % 3},{'yes' if i % 2 else 'no'},h{min(i % 7, i % 3)}" for i in range(300))
    (tmp_path / "own.csv").write_text("age,dose,outcome,hospital\n" + rows)
    own = ["--data", "own.csv", "--target", "outcome", "--client-column", "hospital", "--methods", "fedavg"]
    values = json.loads(fedloom("advise", *own, "--rounds", "2", "--minutes", "20", "--out", "a", "--json").stdout)
    assert values["task"] == "own.csv"
    assert sum(pick["clients"] for pick in values["groups"]) == values["overall"]["clients"] == 3


MISTAKES = {
    "no time": (["--minutes", "0"], "minutes=0"),
    "negative time": (["--minutes=-3"], "minutes=-3"),
    "unknown method": (["--methods", "fedavg,fedprix"], "Did you mean 'fedprox'?"),
    "no method": (["--methods", "local"], "besides local"),
    "two clients": (["--clients", "2"], "needs at least three clients"),
    "unknown task": (["--task", "digitz"], "unknown task 'digitz'"),
    "rounds": (["--rounds", "0"], "rounds=0"),
    "no validation": (["--set", "task.valid_share=2.0"], "valid_share=2.0"),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_one_sentence_and_leaves_nothing_behind(mistake, fedloom, tmp_path):
    words, part = mistake
    result = fedloom("advise", *words)
    assert result.returncode == 2
    (line,) = [line for line in result.stderr.splitlines() if line.strip()]
    assert part in line
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_folder_of_something_else_is_left_alone(fedloom, tmp_path):
    fedloom("run", "--clients", "4", "--rounds", "1", "--out", "a", "--quiet")
    before = sorted(tmp_path.rglob("*"))
    result = fedloom("advise", *SMALL, "--out", "a")
    assert result.returncode == 2
    assert "already contains a run" in result.stderr
    assert sorted(tmp_path.rglob("*")) == before
