"""What a run is put together from: how each architecture trains, who is held out, and how accounting sees a run."""

from __future__ import annotations

import fedloom as fl
from fedloom.channel.sub_model_step import SubModelStep
from fedloom.config.resolve import resolve
from fedloom.core.selector import Draws
from fedloom.runs.prepare import channel_steps, client_ledgers, executions_of, planned_run
from support.synthetic import small_task


def test_each_architecture_has_an_execution_of_its_own():
    task = fl.task("digits", clients=2, models={"mlp": [0], "cnn-small": [1]})
    assert [one.name for one in executions_of(task, resolve({}))[1]] == ["vectorised", "loop"]
    assert [one.name for one in executions_of(task, resolve({"execution": "loop"}))[1]] == ["loop", "loop"]
    assert executions_of(fl.task("digits", clients=2), resolve({}))[1] == ()


def test_the_step_of_sub_models_comes_before_those_of_the_config():
    config = resolve({"federated_dropout": {"keep": 0.5}, "channel": ["halfprecision"]})
    sub_models, steps = channel_steps(config, small_task())
    assert sub_models is not None
    assert [type(step) for step in steps] == [SubModelStep, fl.HalfPrecision]
    none, steps = channel_steps(resolve({"channel": ["halfprecision"]}), small_task())
    assert none is None
    assert [type(step) for step in steps] == [fl.HalfPrecision]


def plan_with(selection, clients=4, selects=True):
    config = resolve({"selection": selection})
    return planned_run(config, fl.FedAvg(), small_task(), clients, selects, deployed=False)


def test_accounting_knows_how_clients_are_drawn_where_the_selector_says_it():
    drawn = {
        "poisson": plan_with(fl.Poisson(0.3)),
        "random": plan_with(fl.Random(number=3)),
        "oort": plan_with(fl.RAWCS()),
        "nobody": plan_with(fl.RAWCS(), clients=1, selects=False),
    }
    assert drawn["poisson"].draws == Draws(rate=0.3)
    assert drawn["random"].draws == Draws(number=3)
    assert drawn["oort"].draws is None
    assert drawn["nobody"].draws == Draws(number=1)


def test_a_run_has_the_ledgers_of_all_that_adds_noise_at_clients():
    noise = {"name": "localnoise", "noise": 4.0, "clip": 0.5}
    config = resolve({"channel": [noise], "sample_privacy": {"noise": 1.0, "clip": 1.0}})
    plan = planned_run(config, fl.FedAvg(), small_task(), 4, selects=True, deployed=False)
    assert client_ledgers(config, plan).keys() == {"sample", "local"}
    assert client_ledgers(resolve({}), plan) == {}


def test_a_deployment_names_sites_so_that_no_privacy_counts_on_draws():
    config = resolve({"rounds": 2, "selection": {"name": "poisson", "rate": 0.5}, "eval_every": 0})
    told = [planned_run(config, fl.FedAvg(), small_task(), 4, True, deployed).tells_draws for deployed in (True, False)]
    assert told == ["a deployment has logs that name sites", None]
