"""Aggregators by name, and what a config may not say."""

import pytest

import fedloom as fl
from fedloom.aggregation.registry import AGGREGATORS
from fedloom.core.errors import FedloomError


def test_every_aggregator_runs_from_its_name():
    task = fl.task("digits", clients=5)
    for name in AGGREGATORS:
        history = fl.run(task, "fedavg", rounds=1, aggregation=name)
        assert history.config["aggregation"]["name"] == name


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("medien", "Did you mean 'median'"),
        ({"name": "trimmedmean", "share": 0.7}, "below 0.5"),
        ({"name": "median", "share": 0.1}, "unknown key"),
        (3, "is not a aggregator"),
    ],
)
def test_what_is_wrong_is_said(value, said):
    with pytest.raises(FedloomError, match=said):
        fl.run("digits", "fedavg", rounds=1, aggregation=value)


@pytest.mark.parametrize("method", ["local", "fedu", "centralised"])
def test_a_method_that_makes_no_mean_refuses_another_aggregator(method):
    with pytest.raises(FedloomError, match="would change nothing"):
        fl.run("digits", method, rounds=1, aggregation="median")
