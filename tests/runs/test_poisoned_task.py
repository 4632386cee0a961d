"""Data attacks in a run: when they act, and what they may return."""

from dataclasses import dataclass

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=6, alpha=1.0)


FLIPS = {"name": "labelflipping", "fraction": 0.5}


@pytest.mark.parametrize("attack", [FLIPS, {"name": "signflipping", "fraction": 0.5}], ids=lambda one: one["name"])
def test_before_it_starts_a_run_is_the_plain_run(task, attack):
    late = fl.run(task, "fedavg", rounds=3, adversary={**attack, "start": 3})
    always = fl.run(task, "fedavg", rounds=3, adversary=attack)
    same = fl.run(task, "fedavg", rounds=3)
    loss = "global_model/global_test/loss"
    for number in (1, 2):
        values = [next(r["metrics"][loss] for r in run.records if r["round"] == number) for run in (late, same, always)]
        assert values[0] == values[1] != values[2]
    assert late.last(loss) != same.last(loss)


def wrong(returned):
    @dataclass(frozen=True)
    class Wrong(fl.Adversary):
        def poison_samples(self, samples, client, task, seed):
            return returned(samples)

    return Wrong(clients=[1])


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda samples: {"z": samples["y"]}, "names the column 'z', but there are"),
        (lambda samples: {"y": samples["y"][:-1]}, "return as many samples of the same type"),
        (lambda samples: {"y": samples["y"].float()}, "torch.float32 of shape"),
        (lambda _: {"y": 3}, "makes 3 of column 'y'"),
    ],
)
def test_what_an_attack_returns_is_checked(task, returned, said):
    with pytest.raises(FedloomError, match=said):
        fl.run(task, "fedavg", rounds=1, adversary=wrong(returned))


def test_an_attack_on_the_whole_task_cannot_start_later(task):
    @dataclass(frozen=True)
    class Whole(fl.Adversary):
        def poison_task(self, task, hostile, seed):
            return fl.task("digits", clients=6)

    with pytest.raises(FedloomError, match="poison_task changes the task of all rounds: leave start and stop out"):
        fl.run(task, "fedavg", rounds=2, adversary=Whole(start=2))


def test_nodes_of_a_graph_are_refused():
    with pytest.raises(FedloomError, match="labelflipping"):
        fl.run(fl.task("flows", clients=3), "fedavg", rounds=1, adversary="labelflipping")
