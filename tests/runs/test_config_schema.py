"""Configs: complete, checked, and the same everywhere."""

import tomllib

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.methods.registry import split_method
from fedloom.runs.config_schema import as_plain, to_toml
from fedloom.runs.method_spec import label_of, method_from
from fedloom.runs.resolve_config import method_from_config, override, resolve


def test_a_config_written_out_reads_back_as_itself():
    config = resolve({"method": {"name": "FedProx", "mu": 0.3}, "task": {"clients": 7}})
    values = as_plain(config, method_from_config(config))
    again = resolve(tomllib.loads(to_toml(values).decode()))
    assert as_plain(again, method_from_config(again)) == values
    assert values["method"] == {"name": "fedprox", "mu": 0.3, "adaptive": False}
    assert values["task"]["model"] == "mlp"
    assert values["task"]["partition"]["name"] == "dirichlet"
    assert values["local"]["batch_size"] == 32


def test_settings_are_read_as_toml_or_else_as_text():
    made = override({"local": {"lr": 1.0}}, ["local.lr=0.5", "local.nesterov=true", "task.name=digits", "seed=3"])
    assert made == {"local": {"lr": 0.5, "nesterov": True}, "task": {"name": "digits"}, "seed": 3}
    with pytest.raises(FedloomError, match="is a value, not a section"):
        override({"seed": 3}, ["seed.x=1"])


def test_a_method_is_named_in_any_case_with_aliases_and_settings():
    assert method_from("FedProx:mu=0.5,adaptive=true") == fl.FedProx(mu=0.5, adaptive=True)
    assert method_from("Federated-Averaging") == fl.FedAvg()
    assert method_from("standalone") == fl.Local()
    assert method_from(fl.FedYogi) == fl.FedYogi()
    assert split_method("my.py:Mine") == ("my.py:Mine", {})
    assert split_method("my.py:Mine:mu=2") == ("my.py:Mine", {"mu": 2})
    assert label_of("FedProx:mu=0.5") == label_of(fl.FedProx(mu=0.5)) == "fedprox:mu=0.5"
    assert label_of(fl.FedAvg()) == "fedavg"


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"rounds": "many"}, "rounds='many'"),
        ({"task": {"clientz": 3}}, "Did you mean 'task.clients'?"),
        ({"local": {"momentum": 1.5}}, "momentum=1.5"),
        ({"weight_by": "age"}, "weight_by='age'"),
        ({"eval_every": -1}, "eval_every=-1"),
        ({"task": {"test_share": 1.0}}, "task.test_share=1.0"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(values, part):
    with pytest.raises(FedloomError) as told:
        resolve(values)
    assert part in str(told.value)


def test_python_settings_are_checked_like_a_file():
    task = fl.task("digits", clients=3, alpha=10)
    with pytest.raises(FedloomError, match=r"Did you mean 'local\.lr'"):
        fl.run(task, rounds=1, local={"lrr": 3})
    with pytest.raises(FedloomError, match="Did you mean 'selection'"):
        fl.run(task, rounds=1, selections={"fraction": 0.5})
