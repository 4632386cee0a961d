"""Sybils send one update; FoolsGold sees them, and a disguise keeps their mean."""

import pytest
import torch

import fedloom as fl


def test_all_send_the_mean_and_a_disguise_cancels():
    changes = torch.randn(4, 50, generator=torch.Generator().manual_seed(1))
    sent = fl.Sybils().collude("row", changes, 9)
    assert torch.allclose(sent, changes.mean(0).expand_as(changes))
    disguised = fl.Sybils(disguise=1.0).collude("row", changes, 9)
    assert torch.allclose(disguised.mean(0), changes.mean(0), atol=1e-6)
    apart = torch.cdist(disguised, disguised) + 1e9 * torch.eye(4)
    assert float(apart.min()) > 0.5 * float(changes.mean(0).norm())


@pytest.mark.slow
def test_foolsgold_takes_their_weight_away():
    task = fl.task("digits", clients=12, alpha=1.0)
    attack = {"name": "sybils", "fraction": 0.5, "classes": [[0, 2], [3, 5]], "one_way": True}
    work = {"epochs": 2, "lr": 0.1}
    rules = ("mean", "foolsgold")
    runs = [fl.run(task, "fedavg", rounds=8, local=work, adversary=attack, aggregation=rule) for rule in rules]
    mean, foolsgold = (run.last("adversary/success") for run in runs)
    assert mean > foolsgold + 0.2


def test_one_sybil_is_none():
    with pytest.raises(fl.FedloomError, match="sybils needs at least 2 hostile clients"):
        fl.run(fl.task("digits", clients=4), "fedavg", rounds=1, adversary={"name": "sybils", "clients": [1]})
