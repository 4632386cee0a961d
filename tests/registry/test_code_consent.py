"""A folder from somebody else is read, and nothing of it is run, whatever it names and wherever."""

from __future__ import annotations

import logging
import re
import shutil
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomli_w
from typer.main import get_command

import fedloom as fl
from fedloom.cli.app import app
from fedloom.config.trusted_code import TrustedCode
from fedloom.core.errors import FedloomError
from fedloom.deploy.saved_model import model_of_run
from fedloom.registry.code_consent import code_digest, code_notes, code_places, trust_only
from fedloom.registry.user_classes import user_callable, user_class
from fedloom.runs.results.client_model import client_model, client_standalone_model
from fedloom.runs.results.history import History
from support.command_line import output
from support.folders import vouch_again

EVIL = """import pathlib
import fedloom as fl
from torch import nn

pathlib.Path({marker!r}).write_text("it was run")


class Net(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.layer = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.layer(x.flatten(1))


class Method(fl.FedAvg):
    pass
"""
WIDE = """from torch import nn


def Wide(inputs, classes, width=2):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.Linear(width, classes))
"""
PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "method": lambda name: {"method": {"name": name}},
    "inner method": lambda name: {"method": {"name": "fedseq", "inner": {"name": name}}},
    "model": lambda name: {"task": {"model": name}},
    "models by share": lambda name: {"task": {"models": {name: 1.0}}},
    "models by list": lambda name: {"task": {"models": {name: [0, 1, 2]}}},
    "models by device": lambda name: {"task": {"models": {name: "slow", "logistic": 1.0}}},
    "models by table": lambda name: {"task": {"models": {name: {"share": 1.0}}}},
    "models by name": lambda name: {"task": {"models": {"wide": {"model": name, "share": 1.0}}}},
    "models with options": lambda name: {"task": {"models": {f"{name}:width=3": 1.0}}},
    "loss": lambda name: {"task": {"loss": {"name": name}}},
    "metric": lambda name: {"task": {"metrics": [{"name": name}]}},
    "selection": lambda name: {"selection": {"name": name}},
    "aggregation": lambda name: {"aggregation": {"name": name}},
    "channel": lambda name: {"channel": [{"name": name}]},
    "adversary": lambda name: {"adversary": {"name": name}},
    "stage": lambda name: {"prediction": [{"name": name}]},
}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fl.run(fl.task("digits", clients=3, model="logistic"), rounds=1, out=folder)
    return folder


def received(run_folder: Path, tmp_path: Path, change: dict[str, Any]) -> tuple[Path, Path]:
    """A folder whose config names code, as somebody sent it, and the file that the code would write."""
    folder, marker = tmp_path / "received", tmp_path / "marker"
    shutil.copytree(run_folder, folder)
    values = tomllib.loads((folder / "config.toml").read_text())
    for key, value in change.items():
        values[key] = {**values.get(key, {}), **value} if key == "task" else value
    (folder / "config.toml").write_bytes(tomli_w.dumps(values).encode())
    vouch_again(folder)  # who writes a folder can also write its digests
    (tmp_path / "evil.py").write_text(EVIL.format(marker=str(marker)))
    return folder, marker


def readers(folder: Path, data: Path) -> dict[str, Callable[[], Any]]:
    """Everything that reads a run's folder."""
    task = fl.task("digits", clients=3, model="logistic")
    return {
        "report": lambda: output(app, "report", folder),
        "predict": lambda: output(app, "predict", folder, data),
        "predict client": lambda: output(app, "predict", folder, data, "--client", "0"),
        "recommend": lambda: output(app, "flows", "recommend", folder, data),
        "export": lambda: output(app, "flows", "export", folder, "--out", folder / "x.safetensors"),
        "explain": lambda: output(app, "deploy", "explain", folder / "config.toml"),
        "fl.report": lambda: fl.report(folder),
        "fl.plot": lambda: fl.plot(folder),
        "History": lambda: (History.load(folder).frame(), History.load(folder).plot(), repr(History.load(folder))),
        "History.model": lambda: History.load(folder).model(task, 0),
        "server_state": lambda: History.load(folder).server_state(),
        "client_model": lambda: client_model(folder, "0"),
        "client_standalone_model": lambda: client_standalone_model(folder),
        "start_from": lambda: fl.run(task, rounds=1, start_from=str(folder)),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", [pytest.param(p, marks=pytest.mark.exhaustive if number % 3 else ()) for number, p in enumerate(PLACES)]
)
def test_no_command_that_reads_a_folder_runs_its_code(run_folder, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("a\n1\n")
    for name in ("evil.py:Method" if "method" in place else "evil.py:Net", f"{tmp_path / 'evil.py'}:Net"):
        shutil.rmtree(tmp_path / "received", ignore_errors=True)
        folder, marker = received(run_folder, tmp_path, PLACES[place](name))
        for what, read in readers(folder, tmp_path / "data.csv").items():
            with suppress(FedloomError):
                read()
            assert not marker.exists(), what


@pytest.mark.parametrize("name", ["subprocess:Popen", "evilmodule:Net"])
def test_code_that_is_installed_is_not_called_either(run_folder, tmp_path, monkeypatch, name):
    monkeypatch.syspath_prepend(str(tmp_path))
    marker = tmp_path / "marker"
    options = {"args": f"echo > {marker}", "shell": True}
    folder, _ = received(run_folder, tmp_path, {"task": {"model": name, "model_options": options}})
    (tmp_path / "evilmodule.py").write_text(EVIL.format(marker=str(marker)))
    with pytest.raises(FedloomError, match="which is not run because a folder names it"):
        client_model(folder, "0")
    assert not marker.exists()


def test_reading_still_shows_what_was_measured(run_folder, tmp_path):
    change = PLACES["stage"]("evil.py:Net") | PLACES["method"]("evil.py:Method") | PLACES["metric"]("evil.py:Net")
    folder, _ = received(run_folder, tmp_path, change)
    assert History.load(folder).records == History.load(run_folder).records
    assert "evil.py:Method+net" in fl.report(folder).read_text()


def test_what_the_user_names_herself_is_run_and_a_difference_is_said(tmp_path, caplog):
    (tmp_path / "net.py").write_text(EVIL.format(marker=str(tmp_path / "marker")))
    folder = tmp_path / "run"
    fl.run(fl.task("digits", clients=3, model=f"{tmp_path / 'net.py'}:Net"), rounds=1, out=folder)
    (tmp_path / "mine").mkdir()
    shutil.copy(tmp_path / "net.py", tmp_path / "mine" / "net.py")
    trusted = TrustedCode(f"{tmp_path / 'mine' / 'net.py'}:Net")
    with pytest.raises(FedloomError, match=r"name it yourself with --trust net.py\."):
        model_of_run(folder)
    with caplog.at_level(logging.WARNING):
        assert model_of_run(folder, trusted=trusted).about.round == 1
    assert not caplog.records
    with (tmp_path / "mine" / "net.py").open("a") as file:
        file.write("# another\n")
    with caplog.at_level(logging.WARNING):
        model_of_run(folder, trusted=trusted)
    assert "net.py is not the file that the run was started with (its digest differs)" in caplog.text


def test_a_file_of_a_clients_model_is_run_if_the_user_names_it_and_its_difference_is_said(tmp_path, caplog):
    for name in ("net.py", "net2.py"):
        (tmp_path / name).write_text(EVIL.format(marker=str(tmp_path / "marker")))
    models = {f"{tmp_path / 'net.py'}:Net": [0, 1], f"{tmp_path / 'net2.py'}:Wide:width=3": [2]}
    (tmp_path / "net2.py").write_text(WIDE)
    folder, mine = tmp_path / "run", tmp_path / "mine"
    fl.run(fl.task("digits", clients=3, models=models), "local", rounds=1, out=folder)
    mine.mkdir()
    for name in ("net.py", "net2.py"):
        (tmp_path / name).rename(mine / name)
    trusted = TrustedCode(files=(str(mine / "net.py"), str(mine / "net2.py")))
    with pytest.raises(FedloomError, match=r"net2.py:Wide', which is not run because a folder names it"):
        model_of_run(folder, "2", TrustedCode(files=(str(mine / "net.py"),)))
    with caplog.at_level(logging.WARNING):
        assert model_of_run(folder, "2", trusted).about.round == 1
    assert not caplog.records
    with (mine / "net2.py").open("a") as file:
        file.write("# another\n")
    with caplog.at_level(logging.WARNING):
        model_of_run(folder, "2", trusted)
    assert "net2.py is not the file that the run was started with (its digest differs)" in caplog.text


def test_resume_asks_for_trust_when_a_file_of_a_clients_model_has_changed(tmp_path):
    (tmp_path / "net2.py").write_text(WIDE)
    models = {"logistic": [0, 1], f"{tmp_path / 'net2.py'}:Wide:width=3": [2]}
    fl.run(fl.task("digits", clients=3, models=models), "local", rounds=1, out=tmp_path / "run")
    fl.resume(tmp_path / "run", rounds=2)
    with (tmp_path / "net2.py").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(FedloomError, match=r"net2.py, which has changed since the run was started"):
        fl.resume(tmp_path / "run", rounds=3)


def test_a_model_is_named_only_where_the_run_has_one_of_its_own(run_folder):
    with pytest.raises(FedloomError, match="the model of this folder is logistic: leave it out"):
        client_model(run_folder, trusted=TrustedCode("net.py:Net"))
    with pytest.raises(FedloomError, match=r"there is no file or module nothing.py to trust"):
        TrustedCode(files=("nothing.py",))


# -- resume asks when the files are not those of the start


def start_own(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text("import fedloom as fl\n\n\nclass Mine(fl.FedAvg):\n    pass\n")
    folder = tmp_path / "run"
    fl.run(fl.task("digits", clients=3, model="logistic"), f"{tmp_path / 'mine.py'}:Mine", rounds=1, out=folder)
    return folder


def test_the_digest_of_each_file_is_noted_when_a_run_starts(tmp_path):
    notes = tomllib.loads((start_own(tmp_path) / "config.toml").read_text())["made_by"]
    assert notes[f"code/{tmp_path / 'mine.py'}"] == code_digest(str(tmp_path / "mine.py"))


def test_resume_asks_for_trust_when_a_file_has_changed(tmp_path):
    folder = start_own(tmp_path)
    fl.resume(folder, rounds=2)
    with (tmp_path / "mine.py").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(
        FedloomError, match=r"mine.py, which has changed since the run was started: read it, and repeat"
    ):
        fl.resume(folder, rounds=3)
    with pytest.raises(FedloomError, match="--trust"):
        output(app, "resume", folder, "--rounds", "3")
    assert fl.resume(folder, rounds=3, trust=True).records[-1]["round"] == 3


@pytest.mark.parametrize("place", ["method", *(place for place in PLACES if "models" in place)])
def test_resume_asks_for_trust_when_a_folder_names_code_that_was_not_noted(run_folder, tmp_path, place):
    own = "Method" if place == "method" else "Net"
    folder, marker = received(run_folder, tmp_path, PLACES[place](f"{tmp_path / 'evil.py'}:{own}"))
    with pytest.raises(FedloomError, match="was not noted when the run was started"):
        fl.resume(folder, rounds=2)
    assert not marker.exists()


def prepared_folder(run_folder: Path, tmp_path: Path, place: str, name: str) -> tuple[Path, Path]:
    """What a stranger sends who knows the rules: config, code, and the digests that fit them."""
    folder, marker = received(run_folder, tmp_path, PLACES[place](name))
    (folder / "evil.py").write_text(EVIL.format(marker=str(marker)))
    values = tomllib.loads((folder / "config.toml").read_text())
    values["made_by"] |= code_notes(values)
    assert any(note.startswith("code/") for note in values["made_by"])
    (folder / "config.toml").write_bytes(tomli_w.dumps(values).encode())
    vouch_again(folder)
    return folder, marker


@pytest.mark.parametrize("place", ["method", "model", "stage", *(place for place in PLACES if "models" in place)])
@pytest.mark.parametrize("where", ["inside", "beside", "installed"])
def test_digests_that_came_with_a_folder_do_not_let_its_code_run(run_folder, tmp_path, monkeypatch, place, where):
    own = "Method" if place == "method" else "Net"
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "received"))
    name = {"inside": f"received/evil.py:{own}", "beside": f"evil.py:{own}", "installed": f"evil:{own}"}[where]
    folder, marker = prepared_folder(run_folder, tmp_path, place, name)
    with pytest.raises(
        FedloomError, match=r"which you have not started a run with on this machine: read it, .*--trust"
    ):
        fl.resume(folder, rounds=2)
    with pytest.raises(FedloomError, match="--trust"):
        output(app, "resume", folder, "--rounds", "2")
    assert not marker.exists()


def test_code_that_a_user_ran_elsewhere_is_not_that_of_a_folder(tmp_path):
    """A copy of her own file in somebody's folder may import what lies beside it there."""
    mine, sent = start_own(tmp_path), tmp_path / "sent"
    sent.mkdir()
    shutil.copy(tmp_path / "mine.py", sent / "mine.py")
    folder, _ = prepared_folder(mine, sent, "method", f"{sent / 'mine.py'}:Mine")
    with pytest.raises(FedloomError, match="which you have not started a run with on this machine"):
        fl.resume(folder, rounds=2)


@pytest.mark.slow
def test_a_comparison_asks_as_well(tmp_path):
    (tmp_path / "mine.py").write_text("import fedloom as fl\n\n\nclass Mine(fl.FedAvg):\n    pass\n")
    task, spec = fl.task("digits", clients=3, model="logistic"), f"{tmp_path / 'mine.py'}:Mine"
    fl.compare(task, [spec, "local"], rounds=1, out=tmp_path / "both")
    fl.compare(task, [spec, "local", "fedavg"], rounds=1, out=tmp_path / "both")
    with (tmp_path / "mine.py").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(FedloomError, match=r"has changed since the comparison in .* was started"):
        fl.compare(task, [spec, "local"], rounds=1, out=tmp_path / "both")
    with pytest.raises(FedloomError, match="repeat the command with --trust"):
        fl.resume(tmp_path / "both", rounds=2)


# -- the advice


def commands(app: Any, *names: str) -> dict[tuple[str, ...], Any]:
    """Every command of the command line by its words."""
    found: dict[tuple[str, ...], Any] = {}
    for name, one in app.commands.items():
        found |= commands(one, *names, name) if hasattr(one, "commands") else {(*names, name): one}
    return found


READERS = {
    ("predict",): ("data.csv",),
    ("flows", "recommend"): ("data.csv",),
    ("flows", "export"): ("--out", "x.safetensors"),
    ("deploy", "explain"): (),
}
"""The commands that may need code of a folder, and their other arguments."""


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("place", ["model", "models by share", "method"])
def test_the_option_that_a_refusal_names_is_one_of_the_command(run_folder, tmp_path, monkeypatch, command, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("a\n1\n")
    name = f"{tmp_path / 'evil.py'}:{'Method' if place == 'method' else 'Net'}"
    folder, marker = received(run_folder, tmp_path, PLACES[place](name))
    monkeypatch.setattr("fedloom.runs.results.client_model.TASKS", {"digits": SimpleNamespace(standalone_model=True)})
    with pytest.raises(FedloomError, match="name it yourself with") as refused:
        output(app, *command, folder, *READERS[command])
    (option,) = re.findall(r"name it yourself with (--\w+) evil\.py\.$", str(refused.value))
    known = [text for one in commands(get_command(app))[command].params for text in one.opts]
    assert option in known
    assert not marker.exists()


def test_every_command_that_may_need_code_of_a_folder_is_tried():
    asks = {
        words
        for words, one in commands(get_command(app)).items()
        if any("--trust" in param.opts and param.metavar == "FILE.py" for param in one.params)
    }
    assert asks == {*READERS, ("deploy", "audit")}  # it reads a participant's folder: tests/deploy/test_plan_audit.py


# -- the rule itself


def test_only_trusted_code_is_loaded_and_what_is_loaded_already_is_used(tmp_path):
    marker = tmp_path / "marker"
    (tmp_path / "own.py").write_text(EVIL.format(marker=str(marker)))
    name = f"{tmp_path / 'own.py'}:Method"
    with trust_only((), "x"), pytest.raises(FedloomError, match="x names code"):
        user_class(name, fl.FedAvg, "method")
    assert not marker.exists()
    with trust_only([str(tmp_path / "own.py")], "x"):
        loaded = user_class(name, fl.FedAvg, "method")
    with trust_only((), "x"):
        assert user_class(name, fl.FedAvg, "method") is loaded
        with pytest.raises(FedloomError):
            user_callable(name, "model")  # what may be any function is never called for a folder


def test_places_are_files_and_modules():
    values = {
        "a": "x/y.py:Z",
        "b": ["pkg.mod:Q", {"name": "m.py:A"}, "fedavg+n.py:B:width=3"],
        "c": "127.0.0.1:80",
        "d": "plain",
    }
    files = {str(Path(name).resolve()) for name in ("x/y.py", "m.py", "n.py")}
    assert set(code_places(values)) - {str(Path("fedavg+n.py").resolve())} == {"pkg.mod", *files}


# -- paths


@pytest.mark.parametrize("name", ["config.toml", "metrics.jsonl", "clients.json", "checkpoints", "partition.json"])
def test_a_link_out_of_the_folder_is_not_followed(run_folder, tmp_path, name):
    folder, _ = received(run_folder, tmp_path, {})
    secret = tmp_path / "secret"
    (folder / name).rename(secret)
    (folder / name).symlink_to(secret)
    with pytest.raises(FedloomError, match="is a link that leads out of the run's folder"):
        History.load(folder)


def test_a_report_does_not_write_through_a_link(run_folder, tmp_path):
    folder, _ = received(run_folder, tmp_path, {})
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (folder / "report.html").unlink(missing_ok=True)
    (folder / "report.html").symlink_to(secret)
    with pytest.raises(FedloomError, match="leads out"):
        fl.report(folder)
    assert secret.read_text() == "mine"
