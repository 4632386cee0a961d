"""``task.models``: who has which architecture, by list, by share and by class of device."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.config.resolve import resolve, task_from_config
from fedloom.core.errors import FedloomError
from fedloom.tasks.architectures import _entry as entry
from fedloom.tasks.architectures import assign, complete_models, numbered_models


def owners(models, clients=12, seed=0):
    entries = {name: entry(name, who) for name, who in models.items()}
    return assign(entries, [str(client) for client in range(clients)], seed).tolist()


def test_a_list_names_clients_and_shares_divide_the_rest():
    found = owners({"mlp": [0, "3"], "logistic": 0.5, "cnn": 0.5})
    assert [client for client, number in enumerate(found) if number == 0] == [0, 3]
    assert (found.count(1), found.count(2)) == (5, 5)
    assert found != owners({"mlp": [0, "3"], "logistic": 0.5, "cnn": 0.5}, seed=1)


def test_device_classes_are_thirds_by_the_speeds_that_rawcs_draws():
    from fedloom.core.seeds import numpy_generator
    from fedloom.selection.devices import draw_devices

    found = torch.tensor(owners({"mlp": "slow", "logistic": "medium", "cnn": "fast"}))
    time = torch.from_numpy(draw_devices(numpy_generator(0, "devices", 0), torch.ones(12).numpy()).training)
    assert [int((found == number).sum()) for number in range(3)] == [4, 4, 4]
    assert time[found == 0].min() > time[found == 1].max() > time[found == 1].min() > time[found == 2].max()


def test_an_entry_may_have_a_name_of_its_own():
    assert complete_models({"small": {"model": "mlp", "share": 1.0}}) == {"small": {"model": "mlp", "share": 1.0}}
    assert complete_models({"mlp": 0.25}) == {"mlp": {"model": "mlp", "share": 0.25}}


def test_numbers_of_clients_say_who_has_which_whatever_said_so_before():
    table = {"mlp:hidden=[8]": 0.5, "logistic": 0.5}
    task = fl.task("digits", clients=6, models=table)
    numbered = numbered_models(table, task.architectures)
    again = fl.task("digits", clients=6, models=numbered)
    assert again.architectures.of_client.tolist() == task.architectures.of_client.tolist()
    assert sorted(client for entry in numbered.values() for client in entry["clients"]) == list(range(6))


def test_a_config_builds_the_same_clients_again():
    task = fl.task("digits", clients=6, models={"mlp:hidden=[8]": 0.5, "logistic": 0.5}, seed=3)
    again = task_from_config(resolve({"task": dict(task.made_from), "seed": 3}))
    assert again.architectures.names == task.architectures.names
    assert torch.equal(again.architectures.of_client, task.architectures.of_client)
    assert all(
        torch.equal(a.initial_row(), b.initial_row())
        for a, b in zip(again.by_architecture, task.by_architecture, strict=True)
    )


def test_the_server_has_the_first_model_unless_the_task_names_one():
    first = fl.task("digits", clients=2, models={"mlp:hidden=[8]": 0.5, "logistic": 0.5})
    named = fl.task("digits", clients=2, model="logistic", models={"mlp:hidden=[8]": 0.5, "logistic": 0.5})
    assert (first.layout.width, named.layout.width) == (64 * 8 + 8 + 90, 650)


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        ({"mlp": [0, 1]}, "client 2 has no model: add it to a list, or give one model a share"),
        ({"mlp": [0], "logistic": [0], "cnn": 1.0}, "client 0 has both mlp and logistic"),
        ({"mlp": 0.5, "logistic": 0.4}, "the shares sum to 0.9"),
        ({"mlp": 0.99, "logistic": 0.01}, "no client has logistic"),
        ({"mlp": [17], "logistic": 1.0}, "names the client 17, but there are 12 clients"),
        ({"mlp": "quick"}, "unknown class of devices"),
        ({"mlp": {"share": 0.5, "device": "slow"}}, "share and device each say who has it: give one of"),
        ({"mlp": {"model": "mlp"}}, "mlp: nothing says who has it: give one of"),
        ({"mlp": True}, "mlp=True: give a share, a list of clients, or a class of devices"),
        ({"mlp": {"share": True}}, "mlp=True: give a share"),
        ({"mlp": object()}, "mlp=<object .*>: give a share"),
        (
            {"a": {"model": nn.Sequential(nn.Linear(64, 10)), "share": 1.0}},
            r"^task.models: a: a model is given by its name, .* file.py:Class .* type Sequential\.$",
        ),
        ({"a": nn.Sequential(nn.Linear(64, 10))}, "^task.models: a: a model is given by its name"),
        ({nn.Linear(64, 10): 1.0}, r"^task.models: a model is given by its name, .* type Linear"),
        ({"mlp": 1.5}, "a share is above 0 and at most 1"),
        ({"mlp": {"share": 1.0, "depth": 3}}, "depth"),
    ],
)
def test_bad_tables_are_refused_in_a_sentence(models, sentence):
    with pytest.raises(FedloomError, match=sentence):
        owners(models)


@pytest.mark.parametrize("some", [(0, 3), {3, 0}, np.array([0, 3]), torch.tensor([0, 3]), range(0, 4, 3)], ids=type)
def test_clients_may_be_in_any_collection(some):
    expected = complete_models({"mlp": [0, 3]})
    assert complete_models({"mlp": some}) == complete_models({"mlp": {"clients": some}}) == expected


@pytest.mark.parametrize("value", ["[32", "x", "1.5"])
def test_an_option_of_a_wrong_type_is_named(value):
    with pytest.raises(
        FedloomError, match=rf"^model 'mlp' cannot .* hidden='?{re.escape(value)}'?: give a value such as"
    ):
        fl.task("digits", clients=4, models={f"mlp:hidden={value}": 0.5, "mlp": 0.5})


@pytest.mark.parametrize("models", [["mlp"], "mlp"])
def test_what_is_no_table_is_refused(models):
    with pytest.raises(FedloomError, match="give a table of models and who has them"):
        fl.task("digits", clients=2, models=models)


def test_graphs_and_flows_have_one_model_for_all():
    with pytest.raises(FedloomError, match="all its clients have one model"):
        fl.task("flows", models={"fullgn": 1.0})
