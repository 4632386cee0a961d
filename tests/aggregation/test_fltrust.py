"""FLTrust: the server's own training is the run's local work, and trust is a cosine."""

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.aggregation.fltrust import FLTrust
from fedloom.core.aggregator import AggregationContext
from support.clusters import clients_on_a_line, server_context


def context(optimum: float, origin: float) -> AggregationContext:
    """The server of a model of one weight whose own sample has its optimum somewhere."""
    task = clients_on_a_line([optimum, 1.0])
    task = replace(task, federation=replace(task.federation, communal=torch.tensor([0])))
    return AggregationContext.of(server_context(task, 1), ids=[0, 1, 2], origin=torch.tensor([origin]))


def test_by_hand():
    """The server moves by +g: clients that move up count alike with g each, those that move down not at all."""
    where = context(3.0, 0.0)
    row = FLTrust()(torch.tensor([[0.5], [200.0], [-1.0]]), torch.full((3,), 1 / 3), where)
    g, steps = float(row), where.work.epochs
    # The loss is (w - 3)²/2 on one sample: each epoch is one step of lr * (3 - w).
    assert g == pytest.approx(3 * (1 - (1 - where.work.lr) ** steps))
    assert float(FLTrust()(torch.tensor([[7.0]]), torch.ones(1), where)) == pytest.approx(g)
    assert float(FLTrust()(torch.tensor([[-7.0]]), torch.ones(1), where)) == 0.0


def test_a_server_does_all_of_its_work_where_clients_may_be_stragglers():
    where = context(3.0, 0.0)
    lazy = replace(where, work=replace(where.work, epochs=5, partial=1.0))
    diligent = replace(lazy, work=replace(lazy.work, partial=0.0))
    changes = [[float(FLTrust()(torch.tensor([[7.0]]), torch.ones(1), replace(one, round=r))) for r in range(1, 9)]
               for one in (lazy, diligent)]  # fmt: skip
    assert changes[0] == changes[1]


def test_a_hostile_majority_cannot_stop_it():
    task = fl.task("digits", clients=10, communal_per_class=5)
    hostile = {"name": "signflipping", "fraction": 0.6}
    trusted, plain = (
        fl.run(task, "fedavg", rounds=5, aggregation=kind, adversary=hostile, eval_every=5)
        for kind in ("fltrust", "mean")
    )
    name = "global_model/global_test/accuracy"
    assert trusted.last(name) > plain.last(name) + 0.2


def test_a_task_without_samples_of_the_server_is_refused():
    with pytest.raises(fl.FedloomError, match=r"set task\.communal_per_class"):
        fl.run(fl.task("digits", clients=5), "fedavg", rounds=1, aggregation="fltrust")


@pytest.mark.parametrize("method", ["fedrep", "scaffold"])
def test_methods_that_do_not_average_whole_models_are_refused(method):
    task = fl.task("digits", clients=5, communal_per_class=5)
    with pytest.raises(fl.FedloomError, match="use another aggregator"):
        fl.run(task, method, rounds=1, aggregation="fltrust")
