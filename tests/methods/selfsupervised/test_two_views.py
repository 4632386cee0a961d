"""What methods on two views share: projections of both views, and settings."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.methods.selfsupervised.contrast import nt_xent
from fedloom.methods.selfsupervised.two_views import EncoderAveraging, projections, simclr_loss
from fedloom.training.functional_network import FunctionalNetwork
from support.small_images import ONE_STEP, adapted, project, two_clients
from support.synthetic import cohort

METHOD = fl.FedSimCLR(projection=4)


def test_views_are_projected_one_by_one():
    task, both = adapted(METHOD), torch.randn(3, 2, 1, 4, 4)
    net = FunctionalNetwork(task.model, dict(task.model.named_parameters()), torch.ones(3))
    found = projections(net, both)
    for k in range(2):
        torch.testing.assert_close(found[:, k], project(task, task.initial_row(), both[:, k]))
    values, counts = simclr_loss(0.5)(net, both, torch.zeros(3), {})
    torch.testing.assert_close(values, nt_xent(found, torch.ones(3), 0.5))
    assert counts.tolist() == [1, 1, 1]


@pytest.mark.parametrize("method", [fl.FedSimCLR, fl.FedSimSiam, fl.FedCA, fl.FedCon, fl.FedLID])
def test_impossible_views_are_refused_by_every_method(method):
    for name, value in {"projection": 0, "crop": 0, "flip": 2}.items():
        with pytest.raises(FedloomError, match=f"{name}={value}: "):
            method(**{name: value})


def test_a_method_says_what_its_clients_minimise():
    method = EncoderAveraging(projection=4)
    task = adapted(method)
    message = method.broadcast(method.start(task), [0, 1])
    with pytest.raises(TypeError, match="EncoderAveraging has no local_loss"):
        method.client_update(cohort(task, "loop", LocalWork()), message)


@pytest.mark.parametrize("stage", ["", "+finetune:part=body", "+lastlocalmodel"])
@pytest.mark.parametrize("name", ["fedsimclr", "fedsimsiam", "fedca"])
def test_a_run_whose_head_nobody_trains_names_the_probe(name, stage, caplog):
    fl.run(two_clients(), name + stage, rounds=1, local=ONE_STEP)
    assert f"{name} does not train the head" in caplog.text
    assert f"use {name}+linearprobe" in caplog.text


@pytest.mark.parametrize(
    "method", ["fedsimclr+linearprobe", "fedsimclr+finetune", "fedsimclr+finetune:part=head", "fedavg"]
)
def test_a_run_whose_head_is_trained_does_not(method, caplog):
    fl.run(two_clients(), method, rounds=1, local=ONE_STEP)
    assert "does not train the head" not in caplog.text
