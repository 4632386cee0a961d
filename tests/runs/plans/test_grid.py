"""What a grid means, and what it cannot mean."""

from __future__ import annotations

import json

import pytest

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.data.partition.partitioner import partitioner
from fedloom.registry.kinds import TASKS
from fedloom.runs.plans.grid import check_grid, combination_label, combinations, read_grid, with_settings


def test_values_are_read_as_toml_and_commas_inside_brackets_belong_to_a_value():
    grid = read_grid(["local.lr=0.1,1", "task.model_options.hidden=[64],[32,16]", "weight_by=samples,uniform"])
    assert grid == {
        "local.lr": [0.1, 1],
        "task.model_options.hidden": [[64], [32, 16]],
        "weight_by": ["samples", "uniform"],
    }
    assert read_grid(["task.partition=iid,dirichlet(0.1,5)"]) == {"task.partition": ["iid", "dirichlet(0.1,5)"]}


def test_a_methods_settings_stay_with_it():
    grid = read_grid(["method=fedprox:mu=1,adaptive=true,fedavg,my.py:Mine:a=1,b=2,fedavg+finetune:epochs=2"])
    assert grid["method"] == ["fedprox:mu=1,adaptive=true", "fedavg", "my.py:Mine:a=1,b=2", "fedavg+finetune:epochs=2"]


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        ([], "needs a grid"),
        (["local.lr"], "write it as key=value,value"),
        (["=1,2"], "write it as key=value,value"),
        (["local.lr="], "has no value"),
        (["local.lr=0.1,,1"], "between commas is empty"),
        (["local.lr=0.1,0.10"], "has 0.1 twice"),
        (["local.epochs=1,1.0"], "has 1.0 twice"),
        (["local.lr=0.1", "local.lr=1"], "is given twice"),
        (["seed=0,1"], "use --seeds"),
    ],
)
def test_a_grid_that_means_nothing_gets_a_sentence(texts, part):
    with pytest.raises(FedloomError, match=part):
        read_grid(texts)


def test_a_grid_in_python_takes_numpy_and_refuses_a_lone_text():
    import numpy as np

    assert check_grid({"local.lr": np.array([0.5, 1.0])}) == {"local.lr": [0.5, 1.0]}
    assert type(check_grid({"rounds": np.array([3])})["rounds"][0]) is int
    with pytest.raises(FedloomError, match="must be a list of values"):
        check_grid({"method": "fedavg"})


def test_combinations_are_all_of_them_and_the_data_change_slowest():
    grid = {"local.lr": [1, 2], "task.clients": [3, 4]}
    assert combinations(grid) == [
        {"local.lr": 1, "task.clients": 3},
        {"local.lr": 2, "task.clients": 3},
        {"local.lr": 1, "task.clients": 4},
        {"local.lr": 2, "task.clients": 4},
    ]


def test_a_combination_changes_its_keys_and_nothing_else():
    base = {"rounds": 5, "method": {"name": "fedprox", "mu": 1}, "local": {"momentum": 0.5}, "task": {"name": "mnist"}}
    before = json.dumps(base)
    values = with_settings(base, {"method.mu": 0.1, "local.lr": 0.3})
    resolved = resolve(values)
    assert values["method"] == {"name": "fedprox", "mu": 0.1}
    assert (values["local"]["lr"], values["local"]["momentum"]) == (0.3, 0.5)
    assert (resolved.local.lr, resolved.local.batch_size) == (0.3, TASKS["mnist"].local.batch_size)
    assert (values["rounds"], values["task"]) == (5, {"name": "mnist"})
    assert json.dumps(base) == before


def test_alpha_of_the_partition_means_what_the_option_means():
    assert with_settings({}, {"task.partition.alpha": 0.1})["task"]["partition"] == {"name": "dirichlet", "alpha": 0.1}
    given = with_settings({"task": {"partition": "dirichlet(5)"}}, {"task.partition.alpha": 0.1})["task"]["partition"]
    assert partitioner(given) == fl.dirichlet(0.1)
    with pytest.raises(FedloomError, match="give the partition too"):
        with_settings({}, {"task.partition.per_client": 2})


def test_keys_are_called_by_their_last_word_where_that_is_enough():
    assert combination_label({"method.mu": 1, "local.lr": 2}) == "mu=1 lr=2"
    assert combination_label({"method.lr": 1, "local.lr": 2}) == "method.lr=1 local.lr=2"
