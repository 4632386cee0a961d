"""Sign flipping: what hostile clients send, what honest clients keep, and what the median saves."""

import pytest
import torch

import fedloom as fl
from fedloom.channel.channel import base_of
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import METHODS
from fedloom.rounds.jobs import Job
from fedloom.runs.prepare import prepare


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=6, alpha=1.0)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedrep"])
def test_the_update_of_a_hostile_client_is_the_opposite_and_of_others_the_same_bytes(task, method):
    attack = {"name": "signflipping", "clients": [1, 4], "scale": 2.0}
    sent = {}
    for hostile in (None, attack):
        run = prepare(task, METHODS.make(method), resolve({"adversary": hostile, "method": method})).composition
        message = run.algorithm.broadcast(run.algorithm.start(task), [0, 1])
        result = run.runtime().do(Job("update", 1, [0, 1], [0, 1]), message, {})
        name = next(iter(run.algorithm.sends)) if method != "fedrep" else "body"
        sent[hostile is None] = result[f"reply/{name}"]
        base = base_of(run.algorithm, name, message, {name: result[f"reply/{name}"]})
    received = 0 if base is None else base
    assert torch.equal(sent[True][0], sent[False][0])
    assert torch.allclose(sent[False][1] - received, -2.0 * (sent[True][1] - received), atol=1e-5)


def test_it_harms_the_mean_and_less_the_median(task):
    attack = {"name": "signflipping", "clients": [0, 3], "scale": 3.0}
    accuracy = {
        (rule, hostile is None): fl.run(task, "fedavg", rounds=6, aggregation=rule, adversary=hostile).last(
            "global_model/global_test/accuracy"
        )
        for rule in ("mean", "median")
        for hostile in (None, attack)
    }
    assert accuracy["mean", True] > accuracy["mean", False] + 0.3
    assert accuracy["median", False] > accuracy["mean", False] + 0.2


def test_hostile_clients_are_drawn_by_the_seed():
    attack = fl.SignFlipping(fraction=0.34)
    drawn = {attack.members(range(6), seed) for seed in range(20)}
    assert {len(some) for some in drawn} == {3}
    assert len(drawn) > 3
    assert attack.members(range(6), 5) == attack.members(range(6), 5)


@pytest.mark.parametrize(
    ("method", "attack", "said"),
    [
        ("fedavg", {"name": "signflip"}, "Did you mean 'signflipping'"),
        ("fedavg", {"name": "signflipping", "scale": 0}, "scale=0 in attack signflipping: it must be above 0"),
        ("fedavg", {"name": "signflipping", "fraction": 2}, "at most 1"),
        ("fedavg", {"name": "signflipping", "clients": [99]}, "no client 99 takes part in training"),
        ("fedavg", {"name": "signflipping", "fraction": -0.1}, "at least 0"),
        ("fedavg", {"name": "signflipping", "clients": []}, r"clients=\[\] .*: it must have at least 1 entry"),
        ("fedavg", [], "is not an attack"),
        ("fedproto", {"name": "signflipping"}, "signflipping changes the updates .* fedproto sends no update"),
        ("local", {"name": "signflipping"}, "signflipping changes the updates .* local sends no"),
    ],
)
def test_what_is_wrong_is_said(task, method, attack, said):
    with pytest.raises(FedloomError, match=said):
        fl.run(task, method, rounds=1, adversary=attack)
