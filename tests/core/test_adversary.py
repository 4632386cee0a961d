"""Who is hostile, and whose data are poisoned."""

from dataclasses import dataclass, replace

import pytest
import torch

import fedloom as fl
from fedloom.methods.registry import make_method
from fedloom.runs.prepare import prepare
from fedloom.runs.resolve_config import resolve


@dataclass(frozen=True)
class Relabel(fl.Adversary):
    """Gives all samples of hostile clients the class 0."""

    def poison_task(self, task, hostile, seed):
        y = task.federation.columns["y"].clone()
        for client in hostile:
            y[task.federation.train[client]] = 0
        return replace(task, federation=replace(task.federation, columns={**task.federation.columns, "y": y}))


@pytest.mark.parametrize("method", ["fedavg", "local", "centralised"])
def test_the_same_data_are_poisoned_whatever_the_method(method):
    task = fl.task("digits", clients=10)
    config = resolve({"adversary": Relabel(fraction=0.3), "method": method, "new_clients": 2})
    run = prepare(task, make_method(method), config).composition
    zeros = [bool((run.task.targets(run.task.federation.train[client]) == 0).all()) for client in range(10)]
    assert {client for client in range(10) if zeros[client]} == run.hostile.members
    assert len(run.hostile.members) == 3
    assert not run.hostile.members & set(run.new_clients)


def test_a_run_without_hostile_data_is_as_before_and_with_it_is_worse():
    task = fl.task("digits", clients=6)
    scores = [
        fl.run(task, "fedavg", rounds=4, adversary=attack).last("global_model/global_test/accuracy")
        for attack in (None, Relabel(fraction=0.5))
    ]
    assert scores[0] > scores[1] + 0.05


def test_somebody_may_look_at_what_reaches_the_server():
    seen = []

    @dataclass(frozen=True)
    class Curious(fl.Adversary):
        def look(self, wave, replies):
            seen.append((list(wave.ids), {name: tensor.clone() for name, tensor in replies.tensors.items()}))

    task = fl.task("digits", clients=3)
    plain, watched = (fl.run(task, "fedavg", rounds=2, adversary=one) for one in (None, Curious()))
    assert [ids for ids, _ in seen] == [[0, 1, 2]] * 2
    assert torch.equal(plain.row, watched.row)
