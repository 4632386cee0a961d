"""The samples that a server rebuilds in a run: the same as its records count, and none where it rebuilds none."""

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.audits.leaks_of_run import leaks_of_run
from fedloom.core.errors import FedloomError
from fedloom.data.federation import Ragged

WORK = {"epochs": 1, "batch_size": 0, "lr": 0.1}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=6)


def test_the_samples_are_those_of_the_clients_and_the_numbers_those_of_the_records(task):
    attack = fl.LinearLeak(victims=[1, 4])
    found = leaks_of_run(task, "fedavg", attack, rounds=1, local=WORK)
    assert [one.clients for one in found] == [(1,), (4,)]
    assert torch.equal(found[1].originals, task.inputs(task.federation.train[4]))
    metrics = fl.run(task, "fedavg", rounds=1, local=WORK, adversary=attack).records[-1]["metrics"]
    assert float(torch.cat([one.psnr for one in found]).nanmean()) == metrics["adversary/psnr"]


def test_a_sum_is_one_entry_of_all_clients(task):
    (found,) = leaks_of_run(task, "fedavg", "trapweights", rounds=2, local=WORK, channel=["securesum"])
    assert found.of_sum
    assert found.clients == tuple(range(6))


def test_what_rebuilds_nothing_is_refused(task):
    with pytest.raises(FedloomError, match="alie rebuilds no samples: use linearleak"):
        leaks_of_run(task, "fedavg", "alie", rounds=1)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_moves_weights_beside_their_gradients_blurs_the_only_image_of_a_client(seed):
    three = fl.task("digits", clients=3)
    federation = three.federation
    only = federation.train.order[federation.train.starts[:3] + seed]
    alone = replace(three, federation=replace(federation, train=Ragged(only, torch.arange(4))))

    def decibels(**work):
        local = {"steps": 50, "lr": 0.1, **work}
        found = leaks_of_run(alone, "fedavg", "linearleak", rounds=1, local=local, eval_every=0, seed=seed)
        return torch.cat([one.psnr for one in found])

    assert min(decibels().min(), decibels(momentum=0.9).min()) > 100
    slight, adam, strong = decibels(weight_decay=1e-3), decibels(optimizer="adam"), decibels(weight_decay=0.05)
    assert slight.min() > 35
    assert slight.max() < 60
    assert adam.min() > 13
    assert adam.max() < 20, "not recognisable"
    assert strong.max() < 13, "a blank image has about 9"
    assert strong.max() + 3 < adam.min()
