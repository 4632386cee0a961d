"""Attackers who agree: on updates of their own, or on what everybody sent."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import fedloom as fl
from fedloom.attacks.known_updates import KnowingAttack


@dataclass(frozen=True)
class SendTheMean(KnowingAttack):
    def agreed_change(self, honest):
        return honest.mean(0)


def test_own_updates_or_those_of_the_others():
    own, others = torch.tensor([[1.0, 1.0], [3.0, 3.0]]), torch.tensor([[10.0, 0.0]])
    assert SendTheMean().collude_against("row", own, others).tolist() == [[2.0, 2.0]] * 2
    assert SendTheMean(knows="all").collude_against("row", own, others).tolist() == [[10.0, 0.0]] * 2
    assert SendTheMean(knows="all").collude_against("row", own, others[:0]).tolist() == [[2.0, 2.0]] * 2


@dataclass(frozen=True)
class SendWhatOthersSend(SendTheMean):
    seen: ClassVar[list[torch.Tensor]] = []

    def look_at_replies(self, wave, replies):
        self.seen.append(replies["row"].clone())
        return {}


def test_in_a_run_they_know_what_the_others_sent():
    task = fl.task("digits", clients=4)
    fl.run(task, "fedavg", rounds=1, adversary=SendWhatOthersSend(clients=[1], knows="all"))
    (rows,) = SendWhatOthersSend.seen
    assert torch.allclose(rows[1], rows[[0, 2, 3]].mean(0), atol=1e-6)


@pytest.mark.parametrize("name", ["ipm", "minmax", "minsum"])
def test_they_need_a_server_that_reads_updates(name):
    task = fl.task("digits", clients=4)
    with pytest.raises(fl.FedloomError, match=name):
        fl.run(task, "fedavg", rounds=1, adversary={"name": name, "fraction": 0.5}, channel="securesum")
