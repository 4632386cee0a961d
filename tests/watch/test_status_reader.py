"""One reading of a folder: the phase a run is in, whatever happened to it, and nothing believed that is not a fact."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from fedloom.deploy.audit_log import append
from fedloom.runs.folder.folder_lock import LOCK, lock_folder
from fedloom.runs.folder.metrics_file import append_record, append_stop
from fedloom.watch import deployment, status_reader
from fedloom.watch.deployment import DeploymentFolder, ServerFacts
from fedloom.watch.live_events import page_status
from fedloom.watch.prometheus import prometheus_text
from fedloom.watch.status import Status
from fedloom.watch.status_reader import StatusReader
from support.command_line import output
from support.pipes import pipe_instead
from support.synthetic import small_task
from support.watched_runs import CLIENTS, finish, play, record, write_run, write_server

COMMANDS = ("audit", "status")


@pytest.fixture(autouse=True)
def always_anew(monkeypatch):
    monkeypatch.setattr(status_reader, "INTERVAL", -1.0)


def read(folder: Path) -> Status:
    return StatusReader(folder).read()


# -- a simulated run


def test_a_finished_run(tmp_path):
    finish(write_run(tmp_path / "r", 3))
    found = read(tmp_path / "r")
    assert (found.phase, found.round, found.rounds, found.records) == ("finished", 3, 3, 4)
    assert (found.title, found.bytes_up, found.bytes_down) == ("fedavg on digits", 3000, 6000)
    assert found.metrics[CLIENTS] == record(3)["metrics"][CLIENTS]
    assert [(one.name, one.train, one.last_round, one.rounds) for one in found.participants] == [
        ("x", 7, 3, 3), ("y", 11, 3, 3), ("z", 15, None, 0)
    ]  # fmt: skip
    assert found.round_seconds == 0.5
    assert not found.trouble(time.time() + 1e9)


def test_a_run_is_running_while_a_process_holds_its_folder_and_interrupted_after_it(tmp_path):
    reader = StatusReader(write_run(tmp_path / "r", 3, of=9))
    assert reader.read().phase == "interrupted"
    assert f"fedloom resume {tmp_path / 'r'}" in reader.read().reason
    with lock_folder(tmp_path / "r"):
        assert (reader.read().phase, reader.read().process) == ("running", os.getpid())
    assert reader.read().phase == "interrupted"


def test_a_lock_that_a_killed_process_left_behind_does_not_count(tmp_path):
    write_run(tmp_path / "r", 1, of=9)
    code = "import sys, time; from pathlib import Path; from fedloom.runs.folder.folder_lock import lock_folder\n"
    code += "with lock_folder(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    held = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "r")], stdout=subprocess.PIPE)
    assert held.stdout is not None
    held.stdout.readline()
    assert read(tmp_path / "r").process == held.pid
    held.send_signal(signal.SIGKILL)
    held.wait()
    held.stdout.close()
    assert (tmp_path / "r" / LOCK).exists()
    assert read(tmp_path / "r").phase == "interrupted"


def test_a_process_number_that_was_used_again_does_not_count(tmp_path):
    write_run(tmp_path / "r", 1, of=9)
    with lock_folder(tmp_path / "r"):
        holder = json.loads((tmp_path / "r" / LOCK).read_bytes())
        (tmp_path / "r" / LOCK).write_text(json.dumps({**holder, "since": "2001-01-01 00:00:00"}))
        assert read(tmp_path / "r").phase == "interrupted"


def test_a_run_that_stopped_says_why(tmp_path):
    append_stop(write_run(tmp_path / "r", 2, of=9), "fedavg diverged")
    finish(tmp_path / "r")
    found = read(tmp_path / "r")
    assert (found.phase, found.reason) == ("stopped", "fedavg diverged")
    assert found.trouble(time.time()) == "stopped: fedavg diverged"


def test_a_run_without_rounds_for_long_is_stalled(tmp_path):
    reader = StatusReader(write_run(tmp_path / "r", 3, of=9))
    with lock_folder(tmp_path / "r"):
        found = reader.read()
        assert found.last_record is not None
        assert found.trouble(found.last_record + 59) == ""
        assert found.trouble(found.last_record + 61) == "no round ended for 61 s; they take 0.5 s each"


def test_a_run_that_is_cut_back_and_goes_on_shows_the_right_records(tmp_path):
    reader = StatusReader(write_run(tmp_path / "r", 6, of=9))
    assert reader.read().round == 6
    before, metrics = reader.generation, tmp_path / "r" / "metrics.jsonl"
    kept = metrics.read_bytes().splitlines(keepends=True)[:3]
    metrics.unlink()
    metrics.write_bytes(b"".join(kept))
    append_record(tmp_path / "r", record(3, selected=[2]), 0.7)
    assert reader.read().round == 3
    assert reader.generation != before
    assert reader.records.rounds == [0, 1, 2, 3]
    assert [one.last_round for one in reader.read().participants] == [2, 2, 3]
    play(tmp_path / "r", range(4, 10))
    assert reader.records.tail.rewritten == 1
    assert (reader.read().round, reader.records.seconds[3]) == (9, 0.7)


def test_who_was_left_out_is_counted_by_kind_of_reason(tmp_path):
    write_run(tmp_path / "r", 0, of=9)
    reasons = ["not connected", "no answer within 5 s", "reply/row has numbers that are not finite"]
    left = [{"client": 1, "name": "y", "what": "update", "reason": reason} for reason in reasons]
    clip = {"client": 0, "name": "y", "what": "clipped", "reason": "moved by 9"}
    remarks = [clip, clip, {**clip, "what": "claim"}, "nonsense"]
    append_record(tmp_path / "r", record(1, excluded=left, lost=[2], remarks=remarks), 0.1)
    found = read(tmp_path / "r")
    assert dict(found.left_out_counts) == {
        ("y", "away"): 1, ("y", "late"): 1, ("y", "invalid"): 1, ("2", "upload failed"): 1
    }  # fmt: skip
    assert [one.left_out for one in found.participants] == [0, 3, 1]
    assert len(found.remarks) == 3
    assert sum(one.clipped for one in found.participants) == 2  # counted apart


def test_nothing_of_a_folder_from_elsewhere_is_believed(tmp_path):
    folder = write_run(tmp_path / "r", 1, of=9)
    (folder / "config.toml").write_text('rounds = "many"\nmade_by = 3\ntask = ["x"]\nmethod = "x.py:Evil"\n')
    (folder / "partition.json").write_text('{"client_names": 4, "counts": [["x"]]}')
    odd = [
        {"round": "2"}, {"round": True}, {"round": 2, "selected": "abc", "metrics": [1], "bytes_up": -5},
        {"round": 3, "metrics": {CLIENTS: "1"}, "excluded": [3, {"name": ["\x1b[31m"], "reason": None}]},
        {"round": 4, "metrics": {CLIENTS: float("nan")}, "bytes_up": 1e300, "lost": 7}, ["x"],
    ]  # fmt: skip
    with open(folder / "metrics.jsonl", "a") as file:
        file.writelines(json.dumps(line) + "\n" for line in odd)
        file.write('{"round": 5, "metrics": {"' + CLIENTS + '": 1' + 400 * "0" + "}}\n")
    found = read(folder)
    assert (found.round, found.rounds, found.phase) == (5, None, "interrupted")
    assert found.metrics[CLIENTS] == record(1)["metrics"][CLIENTS]
    assert "\x1b" not in str(found.left_out)
    assert found.notes == ["1 lines of metrics.jsonl are not records."]


@pytest.mark.parametrize("name", ["partition.json", LOCK, "metrics.jsonl"])
def test_thousands_of_brackets_and_digits_are_left_out(tmp_path, name):
    folder = write_run(tmp_path / "r", 1)
    path = folder / name
    with open(path, "a" if name == "metrics.jsonl" else "w") as file:
        file.write("[" * 100_000 + "\n")
        file.write(json.dumps({"round": 10**400, "bytes_up": 10**400, "selected": []}) + "\n")
    assert read(folder).round == 1


def test_a_folder_that_is_none_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(FedloomError, match="there is no folder"):
        StatusReader(tmp_path / "nowhere")
    with pytest.raises(FedloomError, match=r"neither the folder of a run, nor .* it has no config.toml yet"):
        StatusReader(tmp_path)
    write_run(tmp_path / "plan" / "fedavg-seed0", 1)
    with pytest.raises(FedloomError, match="name one of them: fedavg-seed0"):
        StatusReader(tmp_path / "plan")


def test_settings_that_break_while_they_are_watched_are_a_note(tmp_path):
    reader = StatusReader(write_run(tmp_path / "r", 3, of=9))
    reader.read()
    (tmp_path / "r" / "config.toml").write_text("rounds = ")
    assert "is not valid TOML" in reader.read().notes[0]
    assert reader.read().round == 3


# -- a deployment's server


def test_a_server_that_is_down_says_how_to_start_it(tmp_path):
    found = read(write_server(tmp_path / "server", 0))
    assert (found.phase, found.rounds) == ("interrupted", 10)
    assert found.reason == f"the server is not running: fedloom deploy server {tmp_path / 'server'} starts it."
    assert [(one.name, one.connected) for one in found.participants] == [("north", False), ("south", False)]


@pytest.mark.parametrize(("outcome", "phase", "reason"), [
    ({"error": "round 3 was abandoned\x1b[2J"}, "failed", "round 3 was abandoned [2J"),
    ({"stopped": None}, "finished", ""),
    ({"stopped": "fedavg diverged"}, "stopped", "fedavg diverged"),
])  # fmt: skip
def test_a_deployed_run_that_ended_says_how(tmp_path, outcome, phase, reason):
    folder = write_server(tmp_path / "server", 3)
    (folder / "run" / "outcome.json").write_text(json.dumps(outcome))
    found = read(folder)
    assert (found.phase, found.reason) == (phase, reason)


def test_sites_have_a_sign_of_life_sizes_and_versions(tmp_path, monkeypatch):
    folder = write_server(tmp_path / "server", 3)
    append(folder, "site connected", site="north", version="0.6", train=70, valid=0, test=30, points=100)
    append(folder, "site refused", site="south", reason="it runs fedloom 0.1")
    there = ServerFacts(1, True, "", {}, {"north": 123.0}, frozenset({"north"}))
    monkeypatch.setattr(DeploymentFolder, "_connections", lambda *_: there)
    monkeypatch.setattr(DeploymentFolder, "process", lambda _: 1)
    north, south = read(folder).participants
    assert (north.connected, north.seen, north.train, north.test, north.version) == (True, 123.0, 70, 30, "0.6")
    assert (north.last_round, north.rounds) == (3, 3)
    assert (south.connected, south.trouble, south.train) == (False, "it runs fedloom 0.1", None)
    assert read(folder).audit == "2 entries, the chain is whole"


def late(number, client, name, **more):
    excluded = [{"client": client, "name": name, "what": "update", "reason": "no answer within 5 s"}]
    return record(number, selected=[1 - client], excluded=excluded, **more)


def test_a_site_that_is_connected_and_always_late_is_a_state_of_its_own(tmp_path, monkeypatch):
    folder, everyone = write_server(tmp_path / "server", 1), frozenset({"north", "south"})
    monkeypatch.setattr(DeploymentFolder, "_connections", lambda *_: ServerFacts(1, True, "", {}, {}, everyone))
    monkeypatch.setattr(DeploymentFolder, "process", lambda _: 1)
    monkeypatch.setattr(deployment, "is_serving", lambda _: True)
    for number in (2, 3):
        append_record(folder / "run", late(number, 1, "south"), 0.5)
    append_record(folder / "run", record(4, selected=[0]), 0.5)  # it is not asked
    assert not read(folder).trouble(time.time())
    append_record(folder / "run", late(5, 1, "south"), 0.5)
    found = read(folder)
    assert [one.connection for one in found.participants] == ["connected", "connected, but late in the last 3 rounds"]
    assert found.trouble(time.time()).startswith("connected, but always late: south; each exchange lasts the whole")
    assert [row["always_late"] for row in page_status(found, time.time())["participants"]] == [False, True]
    assert 'fedloom_site_late_rounds{site="south"} 3.0' in prometheus_text(found, time.time())
    assert "fedloom_healthy 0.0" in prometheus_text(found, time.time())
    answer = {"client": 1, "name": "south", "what": "update", "reason": "answer to round 5 came too late"}
    append_record(folder / "run", record(6, excluded=[answer]), 0.5)  # an old one, beside the one in time
    assert not read(folder).trouble(time.time())
    assert [one.connection for one in read(folder).participants] == ["connected", "connected"]


def test_a_site_says_what_it_did_last(tmp_path):
    pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")
    from fedloom.deploy.provision.folders import init

    (tmp_path / "run.toml").write_text('rounds = 2\n[task]\nname = "digits"\nclients = 1\nmodel = "logistic"\n')
    init(tmp_path / "run.toml", tmp_path / "d", ["north"])
    found = read(tmp_path / "d" / "north")
    assert (found.kind, found.title, found.phase) == ("site", "Site north", "interrupted")
    assert f"fedloom deploy client {tmp_path / 'd' / 'north'} starts it" in found.reason
    (tmp_path / "d" / "north" / "logs").mkdir()
    (tmp_path / "d" / "north" / "logs" / "site.log").write_text("site: open\n\x1b[31mround 3: update\x1b[0m\n")
    assert read(tmp_path / "d" / "north").reason == "round 3: update"


# -- what it costs


@pytest.mark.slow
def test_ten_thousand_rounds_are_read_once(tmp_path):
    folder = write_run(tmp_path / "r", 0, of=10_000)
    more = {f"trained_model/own_test/accuracy/{k}": 0.123456789 for k in range(40)}
    lines = [json.dumps({**record(n), "metrics": record(n)["metrics"] | more}) for n in range(1, 10_001)]
    with open(folder / "metrics.jsonl", "a") as file:
        file.write("\n".join(lines) + "\n")
    reader = StatusReader(folder)
    assert reader.read().records == 10_001
    began = time.process_time()
    for _ in range(10):
        reader.read()
    assert time.process_time() - began < 1.0  # a second for the first read of 24 MB is fine, but not again


@pytest.mark.slow
def test_a_page_about_a_participant_waits_for_no_pipe_in_its_folder(tmp_path):
    pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")
    from fedloom.deploy.provision import folders

    (tmp_path / "run.toml").write_text('rounds = 1\n[task]\nname = "digits"\nclients = 1\nmodel = "logistic"\n')
    server, site = folders.init(tmp_path / "run.toml", tmp_path / "deploy", ["north"])
    write_run(server / "run", 2)
    for name in (
        "run/outcome.json",
        "run/status.json",
        "run/serving.json",
        "flower/sites.json",
        "flower/process",
        "revoked.json",
    ):
        (server / name).parent.mkdir(exist_ok=True)
        (server / name).write_text("[]" if name == "revoked.json" else "{}")
    for folder in (server, site):
        read(folder)
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            with pipe_instead(path) as found:
                for look in (lambda place: read(place), *(partial(output, app, "deploy", one) for one in COMMANDS)):
                    with suppress(FedloomError, OSError):
                        look(folder)
                    assert not found, look


def test_a_flipped_byte_of_the_partition_is_said_and_its_numbers_are_not_shown(tmp_path):
    fl.run(small_task(), "fedavg", rounds=1, out=tmp_path / "r")
    assert read(tmp_path / "r").notes == []
    path = tmp_path / "r" / "partition.json"
    content = bytearray(path.read_bytes())
    content[content.index(b"[[") + 2] ^= 1
    path.write_bytes(content)
    found = read(tmp_path / "r")
    assert [one.train for one in found.participants] == [None] * len(found.participants)
    (note,) = found.notes
    assert "partition.json was changed since the run wrote it (its digest differs): fedloom resume" in note
