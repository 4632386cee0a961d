"""The samples that a server rebuilds in a run: the same as its records count, and none where it rebuilds none."""

import pytest
import torch

import fedloom as fl
from fedloom.audits.leaks_of_run import leaks_of_run
from fedloom.core.errors import FedloomError

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
