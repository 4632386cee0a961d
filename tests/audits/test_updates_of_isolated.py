"""A server that isolates a client: the first exchange is everybody's, then the victim trains alone."""

from itertools import pairwise

import pytest
import torch

import fedloom as fl
from fedloom.attacks.reconstruction.representatives import client_representatives
from fedloom.audits.updates_of_isolated import updates_of_isolated
from fedloom.audits.updates_of_run import updates_of_run
from fedloom.core.errors import FedloomError
from fedloom.core.selector import Choice

SETTINGS = {"rounds": 3, "local": {"lr": 0.1}, "seed": 3, "eval_every": 0}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4)


@pytest.fixture(scope="module")
def isolated(task):
    return updates_of_isolated(task, "fedavg", victim=2, **SETTINGS)[0]


@pytest.fixture(scope="module")
def passive(task):
    return updates_of_run(task, "fedavg", **SETTINGS)[0]


def test_the_victim_gets_what_it_sent_and_everybody_else_the_model_of_the_run(isolated):
    mine = [one for one in isolated if one.clients == (2,)]
    assert [one.context.round for one in mine] == [1, 2, 3]
    for before, after in pairwise(mine):
        assert torch.equal((before.row + before.change).float(), after.row)
    for number in (1, 2, 3):
        rows = [one.row for one in isolated if one.context.round == number and one.clients != (2,)]
        assert all(torch.equal(row, rows[0]) for row in rows)
        assert torch.equal(rows[0], next(one.row for one in mine if one.context.round == number)) is (number == 1)


def test_the_first_round_and_its_representatives_are_those_of_a_server_that_looks(task, isolated, passive):
    own = task.federation.global_test
    one, other = (client_representatives(task, some[:4], own, number=5, iterations=3) for some in (isolated, passive))
    assert all(torch.equal(some.images, same.images) for some, same in zip(one, other, strict=True))
    assert not torch.equal(isolated[6].change, passive[6].change)
    assert torch.equal(isolated[4].change, passive[4].change), "others are not touched before the mean has its reply"


def test_an_isolated_victim_learns_as_if_it_trained_alone(task, isolated):
    alone = updates_of_run(task, "fedavg", **SETTINGS, selection=lambda pool: Choice([2]))[0]  # noqa: ARG005
    mine = [one for one in isolated if one.clients == (2,)]
    assert [one.clients for one in alone] == [(2,)] * 3
    for one, other in zip(alone, mine, strict=True):
        torch.testing.assert_close(one.row, other.row)
        torch.testing.assert_close(one.change, other.change)


def test_what_cannot_be_isolated_is_refused(task):
    with pytest.raises(FedloomError, match="isolatingserver looks at single updates: leave out one of the two"):
        updates_of_isolated(task, "fedavg", victim=2, **SETTINGS, channel=["securesum"])
    with pytest.raises(FedloomError, match=r"send no whole model.*choose a method that sends models"):
        updates_of_isolated(task, "fedrep", victim=2, **SETTINGS)
    with pytest.raises(FedloomError, match="fedseq lets clients hand models to each other"):
        updates_of_isolated(task, "fedseq", victim=2, **SETTINGS)
    with pytest.raises(FedloomError, match="there is no client 9 to isolate"):
        updates_of_isolated(task, "fedavg", victim=9, **SETTINGS)
    with pytest.raises(FedloomError, match="leave out adversary"):
        updates_of_isolated(task, "fedavg", victim=2, rounds=1, adversary="alie")
