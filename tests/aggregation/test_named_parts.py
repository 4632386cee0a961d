"""Aggregators by name, and what a config may not say."""

from dataclasses import dataclass

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import AGGREGATORS


def test_every_aggregator_runs_from_its_name():
    task = fl.task("digits", clients=10, communal_per_class=5)
    for name in AGGREGATORS:
        history = fl.run(task, "fedavg", rounds=1, aggregation=name)
        assert history.config["aggregation"]["name"] == name


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("medien", "Did you mean 'median'"),
        ({"name": "trimmedmean", "share": 0.7}, "below 0.5"),
        ({"name": "median", "share": 0.1}, "unknown key"),
        (3, "is not an aggregator"),
        ({"share": 0.1}, "There are none"),
    ],
)
def test_what_is_wrong_is_said(value, said):
    with pytest.raises(FedloomError, match=said):
        fl.run("digits", "fedavg", rounds=1, aggregation=value)


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("local", "local sends nothing: leave it out"),
        ("fedu", "fedu does not take one mean of what its clients send: leave it out"),
        ("centralised", "centralised has all data in one place: leave it out"),
    ],
)
def test_a_method_that_makes_no_mean_refuses_another_aggregator(method, why):
    with pytest.raises(FedloomError, match=f"median makes one update of those of all clients, and {why}"):
        fl.run("digits", method, rounds=1, aggregation="median")


def test_an_aggregator_that_makes_no_single_row_is_refused():
    @dataclass(frozen=True)
    class Both(fl.Aggregator):
        def __call__(self, rows, weights, context):
            return rows[:2]

    with pytest.raises(FedloomError, match="return one row"):
        fl.run(fl.task("digits", clients=3), "fedavg", rounds=1, aggregation=Both())


def test_a_comparison_runs_baselines_that_send_nothing_without_it(tmp_path):
    results = fl.compare("digits", ["fedavg", "local"], rounds=1, aggregation="median", channel=["topk"], out=tmp_path)
    assert [runs[0].config["aggregation"]["name"] for runs in results.values()] == ["median", "mean"]
    assert [len(runs[0].config["channel"]) for runs in results.values()] == [1, 0]
