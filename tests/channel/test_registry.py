"""Channels by name, and what a config may not say."""

import pytest

import fedloom as fl
from fedloom.channel.registry import CHANNELS
from fedloom.core.errors import FedloomError


def test_every_step_runs_from_its_name():
    task = fl.task("digits", clients=3)
    for name in CHANNELS:
        assert fl.run(task, "fedavg", rounds=1, channel=[name]).config["channel"][0]["name"] == name


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["topc"], "Did you mean 'topk'"),
        ("topk", "give a list"),
        ([{"name": "topk", "fraction": 0}], "above 0"),
        ([{"fraction": 0.5}], "a channel step needs a name"),
        ({}, "give a list"),
        (0, "give a list"),
        ("", "give a list"),
        (False, "give a list"),
    ],
)
def test_what_is_wrong_is_said(value, said):
    with pytest.raises(FedloomError, match=said):
        fl.run("digits", "fedavg", rounds=1, channel=value)


@pytest.mark.parametrize("method", ["local", "fedproto", "centralised"])
def test_a_method_without_updates_refuses_a_channel(method):
    with pytest.raises(FedloomError, match="sends no update"):
        fl.run("digits", method, rounds=1, channel=["topk"])
