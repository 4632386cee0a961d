"""A run continues from an earlier round, with the same settings to the same bytes, or with others that are noted."""

from __future__ import annotations

import json
import shutil

import pytest

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from fedloom.registry.validation import read_toml
from support.command_line import output
from support.folders import written


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4, alpha=0.3)


@pytest.fixture(scope="module")
def whole(task, tmp_path_factory):
    """A finished run of six rounds, whose folder has checkpoints of the last three."""
    folder = tmp_path_factory.mktemp("earlier") / "whole"
    fl.run(task, "fedprox", rounds=6, out=folder)
    return folder


def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


@pytest.mark.parametrize("number", [4, 5])
def test_with_the_same_settings_it_ends_in_the_same_bytes(number, whole, tmp_path):
    folder = copy(whole, tmp_path)
    fl.resume(folder, from_round=number)
    assert written(folder) == written(whole)


def test_other_settings_hold_from_there_on_and_the_config_says_until_when_the_old_ones_did(whole, tmp_path):
    folder = copy(whole, tmp_path)
    changed = fl.resume(folder, from_round=4, settings={"local.lr": 0.01, "method.mu": 1.0})
    before = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert changed.records[:5] == before[:5]
    assert all(one != other for one, other in zip(changed.records[5:], before[5:], strict=True))
    config = read_toml(folder / "config.toml")
    assert (config["local"]["lr"], config["method"]["mu"]) == (0.01, 1.0)
    assert config["made_by"]["until_round/4"] == "method.mu=0.01, local.lr=0.1"
    assert fl.History.load(folder).records == changed.records  # every digest is that of the new run
    fl.resume(folder, from_round=4, settings={"local.lr": 0.02, "local.epochs": 2})
    notes = read_toml(folder / "config.toml")["made_by"]
    assert notes["until_round/4"] == "method.mu=0.01, local.lr=0.1, local.epochs=1"
    fl.resume(folder, from_round=5, settings={"local.lr": 0.05})
    notes = read_toml(folder / "config.toml")["made_by"]
    assert notes["until_round/5"] == "local.lr=0.02"
    assert "until_round/4" in notes


def test_back_and_changed_back_is_the_first_run(whole, tmp_path):
    folder = copy(whole, tmp_path)
    fl.resume(folder, from_round=4, settings={"local.lr": 0.01})
    again = fl.resume(folder, from_round=4, settings={"local.lr": 0.1})
    assert again.records == fl.History.load(whole).records


def test_a_run_that_diverged_goes_on_from_the_command_line_with_a_lower_rate(task, tmp_path):
    settings = {"rounds": 4, "checkpoint_every": 1, "out": tmp_path / "run"}
    with pytest.warns(fl.StoppedWarning):
        fl.run(task, "fedavg", local={"lr": 1e8}, **settings)
    with pytest.raises(FedloomError, match="--from-round"):
        fl.resume(tmp_path / "run")
    words = ("resume", tmp_path / "run", "--from-round", "0", "--set", "local.lr=0.1", "--quiet", "--json")
    values = json.loads(output(app, *words))
    assert (values["rounds"], values["stopped"]) == (4, None)
    plain = fl.run(task, "fedavg", rounds=4, local={"lr": 0.1})
    assert values["metrics"] == plain.records[-1]["metrics"]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"from_round": 2}, r"no checkpoint of round 2: continue from one of the rounds 4, 5, 6\."),
        ({"from_round": 6}, "round 6 is the last one"),
        ({"settings": {"local.lr": 0.1}}, "name that round too"),
        (
            {"from_round": 4, "settings": {"seed": 3}},
            "seed=3: a run that continues from an earlier round may only",
        ),
        ({"from_round": 4, "settings": {"method.name": "fedavg"}}, "no names"),
        ({"from_round": 4, "settings": {"task.clients": 3}}, "may only change"),
        ({"from_round": 4, "settings": {"local.lr": -1}}, "lr"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_changes_nothing(how, reason, whole, tmp_path):
    folder = copy(whole, tmp_path)
    with pytest.raises(FedloomError, match=reason) as found:
        fl.resume(folder, **how)
    assert "\n" not in str(found.value)
    assert written(folder) == written(whole)


def test_settings_that_give_the_state_another_form_are_refused(task, tmp_path):
    fl.run(task, "ifca", rounds=2, out=tmp_path / "run")
    with pytest.raises(FedloomError, match="state of another form"):
        fl.resume(tmp_path / "run", from_round=1, settings={"method.clusters": 3})


@pytest.mark.parametrize("step", range(4))
def test_a_kill_on_the_way_back_leaves_a_run_that_goes_on(step, whole, tmp_path, monkeypatch):
    """Between any two writes: with the old settings to the old bytes, or with the new ones to the new ones."""
    folder, new = copy(whole, tmp_path), tmp_path / "new"
    shutil.copytree(whole, new)
    fl.resume(new, from_round=4, settings={"local.lr": 0.01})
    calls = {"left": step}

    def maybe_die(*_):
        if not calls["left"]:
            raise KeyboardInterrupt
        calls["left"] -= 1

    def dying(function):
        def call(*given):
            maybe_die()
            return function(*given)

        return call

    from fedloom.runs import earlier_round

    for name in ("allow_configs", "write_atomic", "recover"):
        monkeypatch.setattr(earlier_round, name, dying(getattr(earlier_round, name)))
    with pytest.raises(KeyboardInterrupt):
        fl.resume(folder, from_round=4, settings={"local.lr": 0.01})
    monkeypatch.undo()
    fl.resume(folder)
    found, old, other = (
        {name: content for name, content in written(one).items() if "manifest" not in name}
        for one in (folder, whole, new)
    )  # a manifest may still allow both configs
    assert found in (old, other)


@pytest.mark.parametrize(
    "private",
    [
        {"aggregation": {"name": "privatemean", "noise": 1.0, "clip": 0.5}},
        {"sample_privacy": {"noise": 1.0}},
        {"channel": [{"name": "localnoise", "noise": 4.0}]},
    ],
)
def test_a_private_run_does_not_go_back_since_its_ledger_would_forget(task, tmp_path, private):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    fl.run(task, "fedavg", rounds=3, eval_every=0, out=tmp_path / "run", **private)
    before = written(tmp_path / "run")
    with pytest.raises(FedloomError, match="a private run cannot go back"):
        fl.resume(tmp_path / "run", from_round=2, task=task)
    assert written(tmp_path / "run") == before
