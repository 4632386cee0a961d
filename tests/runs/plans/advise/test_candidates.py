"""Who plays for advice."""

from __future__ import annotations

import pytest

from fedloom.core.errors import FedloomError
from fedloom.methods.registry import METHODS
from fedloom.prediction.registry import STAGES
from fedloom.runs.method_spec import with_method
from fedloom.runs.plans.advise import candidates as c
from fedloom.runs.resolve_config import method_from_config, resolve


def test_the_table_names_each_setting_once_and_what_exists_can_be_made():
    specs = [spec for line in c.families() for spec in line]
    assert len(set(specs)) == len(specs)
    for line in c.families():
        assert len({c.method_of(spec) for spec in line}) == 1
    for spec in specs:
        assert method_from_config(resolve(with_method({}, spec)))


def test_a_line_whose_method_or_stage_is_missing_is_left_out(monkeypatch):
    monkeypatch.setattr(c, "METHODS", {name: kind for name, kind in METHODS.items() if name != "fedper"})
    monkeypatch.setattr(c, "STAGES", {name: kind for name, kind in STAGES.items() if name != "finetune"})
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


def test_distillation_plays_where_clients_have_a_communal_set():
    more = c.families(communal=True)
    lines = [("fld", "fld:epochs=5"), ("fedmd",), ("dsfl",), ("feddf",), ("fedfmrl",)]
    assert [line for line in more if line not in c.families()] == lines
    assert c.families(["fld"]) == [("local",), ("fld", "fld:epochs=5")]
    for line in more:
        for spec in line:
            assert method_from_config(resolve(with_method({}, spec)))


def test_named_methods_bring_their_settings_and_local_along():
    assert c.families(["FedProx"]) == [("local",), ("fedprox:mu=0.1", "fedprox:mu=1")]
    assert c.families(["fedavg", "local"]) == [("local",), ("fedavg",)]
    assert c.families(["fedprox:mu=7"]) == [("local",), ("fedprox:mu=7",)]
    assert c.families(["fedsgd"]) == [("local",), ("fedsgd",)]
    with pytest.raises(FedloomError, match="Did you mean 'fedavg'"):
        c.families(["fedavgg"])
    with pytest.raises(FedloomError, match="unknown stage 'finetun'"):
        c.families(["fedavg+finetun"])
