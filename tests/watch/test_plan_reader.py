"""The reading of plans' folders: real comparisons, sweeps, advice and audits, and folders that change or are odd."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.runs.folder.folder_lock import lock_folder
from fedloom.watch import plan_reader, status_reader
from fedloom.watch.plan_reader import PlanReader
from fedloom.watch.server import WatchServer
from support.watched_runs import CLIENTS, finish, play, write_audit, write_comparison, write_run

SMALL = {"clients": 4, "model": "logistic"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(plan_reader, "INTERVAL", -1.0)
    monkeypatch.setattr(status_reader, "INTERVAL", -1.0)


def phases(reader: PlanReader) -> list[str]:
    return [one.phase for one in reader.read().members]


def test_runs_wait_work_stop_and_end(tmp_path: Path):
    folder = write_comparison(tmp_path / "cmp", ["fedavg", "local"], seeds=2, rounds=3)
    reader = PlanReader(folder)
    assert reader.read().title == "2 methods on digits"
    assert [(one.label, one.seed, one.rounds) for one in reader.read().members] == [
        ("fedavg", 0, 3), ("local", 0, 3), ("fedavg", 1, 3), ("local", 1, 3)]  # fmt: skip
    assert phases(reader) == 4 * ["waiting"]
    run = write_run(folder / "fedavg-seed0", 1, of=3)
    assert phases(reader) == ["interrupted", *3 * ["waiting"]]
    with lock_folder(run):
        play(run, [2])
        [first, *_] = reader.read().members
        assert (first.phase, first.round, first.rounds, first.round_seconds) == ("running", 2, 3, 0.5)
        assert first.latest[CLIENTS] == pytest.approx(0.7)
        line = next(line for line in reader.read().lines if line.metric == CLIENTS)
        assert (line.member, line.rounds, line.values) == (0, [0, 1, 2], [pytest.approx(v) for v in (0.1, 0.55, 0.7)])
    play(run, [3])
    finish(run)
    assert phases(reader)[0] == "finished"


def test_a_comparison_that_grows_has_more_runs_and_finished_ones_wait_for_more_rounds(tmp_path: Path):
    folder = write_comparison(tmp_path / "cmp", ["fedavg"], seeds=1, rounds=2)
    finish(write_run(folder / "fedavg-seed0", 2))
    reader = PlanReader(folder)
    assert phases(reader) == ["finished"]
    write_comparison(folder, ["fedavg", "local"], seeds=1, rounds=5)
    assert phases(reader) == ["waiting", "waiting"]


def test_a_run_that_cannot_be_read_is_named_and_the_others_are_shown(tmp_path: Path):
    folder = write_comparison(tmp_path / "cmp", ["fedavg", "local"], seeds=1, rounds=2)
    write_run(folder / "local-seed0", 1, of=2)
    (folder / "fedavg-seed0").mkdir()
    (folder / "fedavg-seed0" / "config.toml").write_text("rounds = [")
    odd, good = PlanReader(folder).read().members
    assert odd.phase == "failed"
    assert "config.toml" in odd.reason
    assert good.round == 1


def test_a_plan_that_is_damaged_is_refused_first_and_noted_later(tmp_path: Path):
    folder = write_comparison(tmp_path / "cmp", ["fedavg"], seeds=1, rounds=2)
    reader = PlanReader(folder)
    assert not reader.read().notes
    (folder / "comparison.toml").write_text("seeds = 1\n")
    assert "comparison.toml" in reader.read().notes[0]
    with pytest.raises(FedloomError, match="has no 'config'"):
        PlanReader(folder).read()
    with pytest.raises(FedloomError, match="holds no plan"):
        PlanReader(tmp_path)


def test_long_curves_are_thinned_to_their_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plan_reader, "MOST_POINTS", 4)
    folder = write_comparison(tmp_path / "cmp", ["fedavg"], seeds=1, rounds=11)
    write_run(folder / "fedavg-seed0", 11)
    assert PlanReader(folder).read().lines[0].rounds == [0, 3, 6, 9, 11]


def test_cells_of_an_audit_are_its_members(tmp_path: Path):
    write_audit(tmp_path)
    reader = PlanReader(tmp_path)
    assert reader.read().title == "Audit of fedavg on digits"
    found = [(one.label, one.phase, one.reason) for one in reader.read().members]
    assert found == [("lira (as configured)", "finished", ""), ("gan (as configured)", "stopped", "no classes")]
    assert not reader.read().working
    with lock_folder(tmp_path):
        assert reader.read().working


@pytest.mark.slow
def test_real_plans_are_finished_when_they_are(tmp_path: Path):
    task = fl.task("digits", **SMALL)
    fl.compare(task, ["fedavg", "local"], seeds=2, rounds=2, out=tmp_path / "cmp")
    fl.sweep("digits", grid={"local.lr": [0.1, 0.2]}, rounds=2, out=tmp_path / "swp")
    compared, swept = (PlanReader(tmp_path / name).read() for name in ("cmp", "swp"))
    assert [one.phase for one in compared.members] == 4 * ["finished"]
    assert compared.phase(0.0) == swept.phase(0.0) == "finished"
    assert [one.label for one in swept.members] == ["lr=0.1", "lr=0.2"]
    assert swept.title == "Sweep of local.lr on digits"
    fl.advise("digits", minutes=0.05, methods=["fedavg"], rounds=4, out=tmp_path / "adv")
    advised = PlanReader(tmp_path / "adv").read()
    assert advised.phase(0.0) == "finished"
    assert {one.phase for one in advised.members} == {"finished"}
    assert {"local lr=0.1", "fedavg lr=0.1"} <= {one.label for one in advised.members}
    assert "validation sets" in advised.curves[0].title


def test_the_message_for_a_folder_with_neither_names_what_is_watched(tmp_path: Path):
    with pytest.raises(FedloomError, match="nor of a plan"):
        WatchServer(tmp_path)
