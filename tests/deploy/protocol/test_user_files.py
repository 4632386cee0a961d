"""The files of users' own models reach every participant, wherever a run names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedloom.cli.app import app
from fedloom.config.resolve import resolve
from fedloom.config.schema import to_toml
from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.user_files import (
    copy_user_files,
    named_code,
    user_files,
    with_absolute_files,
    with_relative_files,
)
from fedloom.registry.code_consent import code_digest, trust_only
from fedloom.registry.validation import read_toml
from support.command_line import output

NET = """from torch import nn


def {name}(inputs, classes, hidden=4):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))
"""
SITES = ["north", "south", "west"]
FORMS: dict[str, dict[str, Any]] = {
    "lists": {"net.py:A": [0, 1], "net2.py:B": [2]},
    "options": {"net.py:A:hidden=16": [0, 1], "net2.py:B:hidden=5": [2]},
    "shares": {"net.py:A": 0.6, "net2.py:B:hidden=5": 0.4},
    "devices": {"net.py:A": "slow", "net2.py:B": "medium", "logistic": "fast"},
    "names of their own": {
        "wide": {"model": "net.py:A:hidden=16", "clients": [0, 1]},
        "narrow": {"model": "net2.py:B", "share": 1.0},
    },
    "tables": {"net.py:A": {"share": 0.5}, "net2.py:B": {"device": "fast"}, "logistic": {"share": 0.5}},
    "with a server's model": {"net.py:A": [0], "net2.py:B": 1.0},
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The operator's folder, with two files of models."""
    (tmp_path / "net.py").write_text(NET.format(name="A"))
    (tmp_path / "net2.py").write_text(NET.format(name="B"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_of(models: dict[str, Any], **task: Any) -> dict[str, Any]:
    section = {"name": "digits", "clients": 3, "models": models, **task}
    return {"rounds": 1, "task": section, "method": {"name": "local"}}


def blueprint_of(models: dict[str, Any], **task: Any) -> Blueprint:
    return Blueprint.of(resolve(run_of(models, **task)), SITES)


@pytest.mark.parametrize("form", FORMS)
def test_every_file_of_the_clients_models_goes_to_a_participant(files, form):
    made = blueprint_of(FORMS[form], **({"model": "logistic"} if form == "with a server's model" else {}))
    site = files / "deploy" / "north"
    made.save(site, server=False)
    assert sorted(path.name for path in site.glob("*.py")) == ["net.py", "net2.py"]
    assert str(files) not in (site / "config.toml").read_text()
    loaded = Blueprint.load(site)
    own = [entry["model"] for entry in loaded.config.task.models.values() if ".py:" in entry["model"]]
    assert [Path(name.partition(".py:")[0]) for name in own] == [site / "net", site / "net2"]
    assert loaded.digest == made.digest


def test_options_of_a_model_stay_behind_its_class(files):
    made = blueprint_of(FORMS["options"])
    made.save(files / "north", server=False)
    table = read_toml(files / "north" / "config.toml")["task"]["models"]
    assert [entry["model"] for entry in table.values()] == ["net.py:A:hidden=16", "net2.py:B:hidden=5"]
    assert [entry["model"] for entry in Blueprint.load(files / "north").config.task.models.values()] == [
        f"{files / 'north' / 'net.py'}:A:hidden=16",
        f"{files / 'north' / 'net2.py'}:B:hidden=5",
    ]


def test_a_site_with_another_file_of_a_clients_model_is_not_in_the_same_run(files):
    made = blueprint_of(FORMS["lists"])
    made.save(files / "north", server=False)
    with (files / "north" / "net2.py").open("a") as file:
        file.write("# another\n")
    assert Blueprint.load(files / "north").digest != made.digest


def test_the_operators_paths_are_not_in_the_names_of_models_or_in_a_methods_settings(files):
    wide = f"{files / 'net.py'}:A"
    plain = run_of({wide: {"model": wide, "clients": [0]}}) | {"method": {"name": "fedharm", "align": {wide: [1, 2]}}}
    relative = with_relative_files(plain)
    assert relative["task"]["models"] == {"net.py:A": {"model": "net.py:A", "clients": [0]}}
    assert relative["method"]["align"] == {"net.py:A": [1, 2]}
    assert with_relative_files(with_absolute_files(relative, files)) == relative
    with pytest.raises(FedloomError, match=r"task.models: two models are called net.py:A: give each a name"):
        with_relative_files(run_of({wide: [0], "net.py:A": [1]}))


def test_two_files_of_one_name_are_refused_by_that_name(files):
    (files / "other").mkdir()
    (files / "other" / "net2.py").write_text(NET.format(name="C"))
    made = blueprint_of({"net.py:A": [0], "net2.py:B": [1], "other/net2.py:C": [2]})
    with pytest.raises(FedloomError, match=r"two files are called net2.py"):
        made.save(files / "north", server=False)


def test_names_in_every_form_are_found_before_a_config_is_complete():
    models = {
        "a.py:A:x=1": 0.5,
        "b.py:B": {"share": 0.5},
        "mlp:hidden=[8]": [0],
        "c": {"model": "c.py:C", "clients": []},
    }
    assert named_code({"task": {"models": models}}) == ["a.py:A", "b.py:B", "c.py:C"]
    assert [file.name for file in user_files({"task": {"models": models}})] == ["a.py", "b.py", "c.py"]
    (entry, *_) = with_absolute_files({"task": {"models": models}}, Path("/site"))["task"]["models"].values()
    assert entry == {"model": "/site/a.py:A:x=1", "share": 0.5}


@pytest.mark.slow
def test_deploy_init_signs_the_files_of_the_clients_models(files):
    pytest.importorskip("flwr", reason="needs flwr")
    (files / "dep.toml").write_bytes(to_toml(run_of(FORMS["lists"])))
    output(app, "deploy", "init", "dep.toml", "--clients", ",".join(SITES))
    for who in ("server", *SITES):
        folder = files / "deploy" / who
        assert {"net.py", "net2.py"} <= json.loads((folder / "signature.json").read_text())["files"].keys()
        assert str(files) not in (folder / "config.toml").read_text()


@pytest.mark.parametrize("inner", ["mine.py:M", {"name": "mine.py:M", "rate": 0.5}], ids=str)
def test_a_method_inside_another_one_is_found(inner: Any) -> None:
    plain = {"method": {"name": "fedseq", "inner": {"name": "fedseq", "inner": inner}}, "task": {"name": "digits"}}
    assert named_code(plain) == ["mine.py:M"]
    there = with_absolute_files(plain, Path("/folder"))["method"]["inner"]["inner"]
    assert (there if isinstance(there, str) else there["name"]) == "/folder/mine.py:M"


def test_rules_that_act_in_turn_are_found() -> None:
    plain = {"aggregation": ["foolsgold", "mine.py:A:x=1", {"name": "yours.py:B"}], "task": {"name": "digits"}}
    assert [file.name for file in user_files(plain)] == ["mine.py", "yours.py"]
    there = with_absolute_files(plain, Path("/folder"))["aggregation"]
    assert there == ["foolsgold", "/folder/mine.py:A:x=1", {"name": "/folder/yours.py:B"}]


def test_a_package_goes_with_all_that_it_imports_and_in_its_folders(files: Path, tmp_path: Path) -> None:
    package = files / "mypkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "layers.py").write_text(NET.format(name="A"))
    (package / "nets.py").write_text("from .layers import A\n")
    config = {"task": {"name": "digits", "model": f"{package}/nets.py:A"}, "method": {"name": "fedavg"}}
    folder = tmp_path / "site"
    inside = copy_user_files(config, folder)
    assert inside["task"]["model"] == "mypkg/nets.py:A"
    copied = sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*.py"))
    assert copied == ["mypkg/__init__.py", "mypkg/layers.py", "mypkg/nets.py"]
    assert with_absolute_files(inside, folder)["task"]["model"] == f"{folder}/mypkg/nets.py:A"
    assert code_digest(f"{folder}/mypkg/nets.py") == code_digest(f"{package}/nets.py")
    (folder / "mypkg/layers.py").write_text("changed = True\n")
    assert code_digest(f"{folder}/mypkg/nets.py") != code_digest(f"{package}/nets.py")


TRAINING = """
import torch


class Slower(torch.optim.Adamax):
    pass


def rate(round, step, steps):
    return (1 - 0.5 * step / steps) / round


def server_rate(round):
    return 1 / round
"""


def test_files_of_optimisers_and_schedules_go_to_a_participant_whose_process_trains_with_them(files: Path) -> None:
    (files / "mine.py").write_text(TRAINING)
    plain = run_of({}) | {
        "method": {"name": "fedavg"},
        "task": {"name": "digits", "clients": 3, "seed": 1},
        "local": {"optimizer": "mine.py:Slower", "schedule": "mine.py:rate", "lr": 0.01},
        "server_optimizer": {"schedule": "mine.py:server_rate"},
    }
    made = Blueprint.of(resolve(plain), SITES)
    site = files / "deploy" / "north"
    made.save(site, server=False)
    assert [path.name for path in site.glob("*.py")] == ["mine.py"]
    assert str(files) not in (site / "config.toml").read_text()
    loaded = Blueprint.load(site)
    assert loaded.digest == made.digest
    assert loaded.config.local.optimizer == f"{site / 'mine.py'}:Slower"
    assert loaded.config.server_optimizer is not None
    assert loaded.config.server_optimizer.schedule == f"{site / 'mine.py'}:server_rate"
    assert loaded.config.local.rates_in(1, 1) is not None
    with trust_only([], "it"), pytest.raises(FedloomError, match=r"the (optimizer|schedule) .* yourself with --trust"):
        Blueprint.load(files / "deploy" / "north")
