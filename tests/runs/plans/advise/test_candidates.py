"""Who plays for advice."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.config.method_spec import with_method
from fedloom.config.resolve import method_from_config, resolve
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import METHODS, PREDICTION_STAGES
from fedloom.runs.plans.advise import candidates as c


def test_the_table_names_each_setting_once_and_what_exists_can_be_made():
    specs = [spec for line in c.families() for spec in line]
    assert len(set(specs)) == len(specs)
    for line in c.families():
        assert len({c.method_of(spec) for spec in line}) == 1
    for spec in specs:
        assert method_from_config(resolve(with_method({}, spec)))


def test_a_line_whose_method_or_stage_is_missing_is_left_out(monkeypatch):
    monkeypatch.setattr(c, "METHODS", set(METHODS) - {"fedper"})
    monkeypatch.setattr(c, "PREDICTION_STAGES", set(PREDICTION_STAGES) - {"finetune"})
    left = {c.method_of(line[0]) for line in c.families()}
    assert "fedper" not in left
    assert not any("finetune" in name for name in left)
    assert {"local", "fedavg", "fedrep"} <= left


def test_every_method_plays_once_before_any_plays_twice():
    lines = [("local",), ("fedavg",), ("fedprox:mu=0.1", "fedprox:mu=1", "fedprox:mu=5")]
    names = [one.label for one in c.candidates(lines, 0.1)]
    assert names == [
        *("local lr=0.1", "fedavg lr=0.1", "fedprox:mu=0.1 lr=0.1"),
        *("local lr=0.3", "fedavg lr=0.3", "fedprox:mu=0.1 lr=0.3"),
        *("local lr=0.033", "fedavg lr=0.033", "fedprox:mu=0.1 lr=0.033"),
        *("fedprox:mu=1 lr=0.1", "fedprox:mu=5 lr=0.1"),
    ]


def added_by(*parts: str) -> list[str]:
    return [line[0] for line in c.families(task_has=parts) if line not in c.families()]


def test_some_methods_play_where_the_task_has_what_they_are_for():
    assert added_by("communal") == ["fld", "fedmd", "dsfl", "feddf", "fedfmrl"]
    assert added_by("models") == ["fedproto", "fdfaug", "fedharm", "heterofl", "fjord"]
    assert added_by("stream") == ["fedavgexemplars", "fedrcil"]
    assert added_by("communal", "server_set") == ["fld", "fedmd", "dsfl", "feddf", "fedfmrl", "fedlid"]
    mixed = [line[0] for line in c.families(task_has=["communal", "models"])]
    assert mixed == ["local", *added_by("communal"), *added_by("models")]
    assert c.families(["fld"]) == [("local",), ("fld", "fld:epochs=5")]
    for line in c.families(task_has=c.FOR_TASKS_WITH):
        for spec in line:
            assert method_from_config(resolve(with_method({}, spec)))


def test_a_config_and_its_task_have_the_same_parts():
    models = {"mlp:hidden=[8]": [0, 1], "logistic": [2]}
    for settings in (
        {},
        {"communal": 0.2, "models": models},
        {"stream": {"tasks": 2, "rounds": 1}, "server_set": {"share": 0.1}},
    ):
        parts = c.parts_of(settings)
        assert parts == [part for part in c.FOR_TASKS_WITH if part in settings]
        assert c.parts_of_task(fl.task("digits", clients=3, **settings)) == parts
    assert c.parts_of({"communal_per_class": 3}) == ["communal"]


def test_named_methods_bring_their_settings_and_local_along():
    assert c.families(["FedProx"]) == [("local",), ("fedprox:mu=0.1", "fedprox:mu=1")]
    assert c.families(["fedavg", "local"]) == [("local",), ("fedavg",)]
    assert c.families(["fedprox:mu=7"]) == [("local",), ("fedprox:mu=7",)]
    assert c.families(["fedsgd"]) == [("local",), ("fedsgd",)]
    with pytest.raises(FedloomError, match="Did you mean 'fedavg'"):
        c.families(["fedavgg"])
    with pytest.raises(FedloomError, match="unknown stage 'finetun'"):
        c.families(["fedavg+finetun"])
