"""The document's filters in a run: what they say, where they may stand, and what whole weights become."""

import math

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.senders import MemorySender, send

FILTERS = [fl.SVT(), fl.Percentile()]


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=2)


@pytest.mark.parametrize("step", FILTERS, ids=lambda step: type(step).__name__)
def test_a_run_says_that_they_guarantee_nothing(step, task, caplog):
    fl.run(task, "fedavg", rounds=1, channel=[step])
    assert f"{type(step).__name__.lower()} gives no sound guarantee of differential privacy" in caplog.text


def test_whole_weights_are_crushed_and_differences_are_not(task):
    sender = MemorySender([0], steps=3, received=torch.full((4,), 5.0))
    found = send(fl.Percentile(0, whole_weights=True), torch.zeros(1, 4), sender)
    assert torch.allclose(5 + found, torch.full((1, 4), 0.03), atol=1e-6)
    loss = {}
    for whole in (False, True):
        history = fl.run(task, "fedavg", rounds=1, channel=[fl.SVT(whole_weights=whole)])
        loss[whole] = [record["metrics"]["global_model/global_test/loss"] for record in history.records]
    assert loss[False][-1] == pytest.approx(loss[False][0], abs=0.02)  # gamma lets hardly anything move
    assert loss[True][-1] == pytest.approx(math.log(10), abs=1e-4)  # and nothing of the weights is left


@pytest.mark.parametrize(
    ("method", "channel", "said"),
    [
        ("fedavg", ["topk", "svt"], "put it first"),
        ("fedavg", ["svt", fl.Percentile(whole_weights=True)], "whole_weights filters the weights"),
        ("scaffold", [fl.SVT(whole_weights=True)], "scaffold sends differences"),
        ("fedproto", ["svt"], "sends no update"),
    ],
)
def test_a_filter_that_would_not_see_what_it_is_for_stops_the_run(method, channel, said, task):
    with pytest.raises(FedloomError, match=said):
        fl.run(task, method, rounds=1, channel=channel)
    fl.run(task, "fedavg", rounds=1, channel=["percentile", "svt", "topk", "qsgd"])
