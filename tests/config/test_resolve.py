"""Values of a config are checked and completed in one place, whoever gives them."""

import pytest

import fedloom as fl
from fedloom.config.resolve import override, resolve
from fedloom.config.schema import as_plain
from fedloom.core.errors import FedloomError


def test_settings_are_read_as_toml_or_else_as_text():
    made = override({"local": {"lr": 1.0}}, ["local.lr=0.5", "local.nesterov=true", "task.name=digits", "seed=3"])
    assert made == {"local": {"lr": 0.5, "nesterov": True}, "task": {"name": "digits"}, "seed": 3}
    with pytest.raises(FedloomError, match="is a value, not a section"):
        override({"seed": 3}, ["seed.x=1"])


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"rounds": "many"}, "rounds='many'"),
        ({"task": {"clientz": 3}}, "Did you mean 'task.clients'?"),
        ({"task": {"alpha": 0.1}}, 'set task.partition.alpha, and task.partition.name = "dirichlet"'),
        ({"task": {"xyz": 0.1}}, "'task.xyz'. Known:"),
        ({"local": {"momentum": 1.5}}, "momentum=1.5"),
        ({"weight_by": "age"}, "weight_by='age'"),
        ({"eval_every": -1}, "eval_every=-1"),
        ({"task": {"test_share": 1.0}}, "task.test_share=1.0"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(values, part):
    with pytest.raises(FedloomError) as refusal:
        resolve(values)
    assert part in str(refusal.value)


def test_python_settings_are_checked_like_a_file():
    task = fl.task("digits", clients=3, alpha=10)
    with pytest.raises(FedloomError, match=r"Did you mean 'local\.lr'"):
        fl.run(task, rounds=1, local={"lrr": 3})
    with pytest.raises(FedloomError, match="Did you mean 'selection'"):
        fl.run(task, rounds=1, selections={"fraction": 0.5})


def test_a_negative_seed_is_refused_and_a_run_that_began_with_one_goes_on():
    for values in ({"seed": -1}, {"task": {"name": "digits", "seed": -2}}):
        with pytest.raises(FedloomError, match=r"seed=-\d in the configuration: a seed is 0 or more"):
            resolve(values)
    assert resolve({"seed": -1, "made_by": {"fedloom": "0.5.0"}}).seed == -1


def test_a_task_with_a_negative_seed_is_refused():
    with pytest.raises(FedloomError, match="seed=-1: it must be at least 0"):
        fl.task("digits", seed=-1)


def test_another_optimiser_has_its_own_defaults_and_keeps_what_the_task_chose():
    images = {"task": {"name": "cifar10", "clients": 4}}
    assert resolve(images).local.weight_decay == 4e-4
    assert resolve({**images, "local": {"optimizer": "adam"}}).local.weight_decay == 4e-4
    digits = {"task": {"name": "digits", "clients": 4}}
    assert resolve({**digits, "local": {"optimizer": "adamw"}}).local.weight_decay == 0.01
    assert resolve({**digits, "local": {"optimizer": "adagrad"}}).local.epsilon == 1e-10


def test_a_config_that_was_completed_is_read_again():
    for local in ({}, {"optimizer": "adamw"}, {"optimizer": "torch.optim:Adamax"}, {"optimizer": "adagrad"}):
        made = resolve({"task": {"name": "digits", "clients": 4}, "local": local})
        assert resolve(as_plain(made, fl.FedAvg())).local == made.local
