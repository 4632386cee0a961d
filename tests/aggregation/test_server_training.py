"""Server training: what the server's clean samples make of the mean, and where it can stand."""

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.aggregation.chain import AggregatorChain
from fedloom.aggregation.median import Median
from fedloom.aggregation.server_training import ServerTraining
from fedloom.core.aggregator import AggregationContext
from support.clusters import clients_on_a_line, server_context

SCORE = "global_model/global_test/accuracy"


def context(optimum: float) -> AggregationContext:
    """The server of a model of one weight whose own sample has its optimum somewhere."""
    task = clients_on_a_line([optimum, 1.0])
    task = replace(task, federation=replace(task.federation, communal=torch.tensor([0])))
    return AggregationContext.of(server_context(task, 1), ids=[0, 1, 2], origin=torch.tensor([0.0]))


def trained(row: float, optimum: float, epochs: int, lr: float) -> float:
    """The loss is (w - optimum)²/2 on one sample: each epoch is one step of lr * (optimum - w)."""
    return optimum + (row - optimum) * (1 - lr) ** epochs


@pytest.mark.parametrize("epochs", [1, 3])
def test_by_hand_the_weighted_mean_goes_to_the_optimum_of_the_server_s_sample(epochs):
    where = context(3.0)
    row = ServerTraining(epochs=epochs)(torch.tensor([[0.0], [4.0]]), torch.tensor([0.75, 0.25]), where)
    assert float(row) == pytest.approx(trained(1.0, 3.0, epochs, where.work.lr))


def test_behind_another_rule_it_trains_what_that_rule_makes():
    where = context(3.0)
    rows = torch.tensor([[0.0], [1.0], [1000.0]])
    row = AggregatorChain((Median(), ServerTraining()))(rows, torch.full((3,), 1 / 3), where)
    assert float(row) == pytest.approx(trained(1.0, 3.0, 1, where.work.lr))


def test_it_lets_a_hostile_half_do_less_harm_and_goes_with_sums_that_hide_clients():
    task = fl.task("digits", clients=10, alpha=100.0, communal_per_class=5)
    settings = {"rounds": 5, "eval_every": 5, "adversary": {"name": "labelflipping", "fraction": 0.5}}
    plain = fl.run(task, "fedavg", **settings).last(SCORE)
    refined = fl.run(task, "fedavg", aggregation="servertraining:epochs=5", **settings)
    assert refined.last(SCORE) > plain + 0.2
    summed = fl.run(task, "fedavg", aggregation="servertraining:epochs=5", channel="securesum", **settings)
    assert summed.last(SCORE) == pytest.approx(refined.last(SCORE), abs=0.02)


def test_a_task_without_clean_samples_of_the_server_is_refused():
    with pytest.raises(
        fl.FedloomError, match=r"servertraining trains on clean samples .* set task\.communal_per_class"
    ):
        fl.run(fl.task("digits", clients=5), "fedavg", rounds=1, aggregation="servertraining")
    for rules in (["median", "servertraining"], ["foolsgold", "servertraining"]):
        with pytest.raises(fl.FedloomError, match="servertraining trains on clean samples"):
            fl.run(fl.task("digits", clients=5), "fedavg", rounds=1, aggregation=rules)


@pytest.mark.parametrize("method", ["fedrep", "scaffold", "ifca"])
def test_methods_without_one_mean_of_whole_models_are_refused(method):
    task = fl.task("digits", clients=5, communal_per_class=5)
    with pytest.raises(fl.FedloomError, match="servertraining trains the mean of clients' whole models"):
        fl.run(task, method, rounds=1, aggregation="servertraining")
