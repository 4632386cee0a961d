"""What a GAN attack had after every visit is what the run itself keeps, and being watched changes nothing."""

import torch

import fedloom as fl
from fedloom.audits.generators_of_run import with_visits


def test_being_watched_changes_nothing_and_the_model_is_the_one_of_the_round():
    task, found = fl.task("digits", clients=4), []
    attack = fl.GAN(clients=[2], variant="original", steps=2, width=2)
    watched = fl.run(task, "fedavg", rounds=2, adversary=with_visits(attack, found.append))
    assert torch.equal(watched.row, fl.run(task, "fedavg", rounds=2, adversary=attack).row)
    assert [(visit.round, visit.client) for visit in found] == [(1, 2), (2, 2)]
    assert torch.equal(found[0].received, task.initial_row())
    assert torch.equal(found[1].received, fl.run(task, "fedavg", rounds=1, adversary=attack).row)
