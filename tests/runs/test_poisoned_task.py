"""Data attacks in a run: when they act, what they may return, and that workers and stops change nothing."""

from dataclasses import dataclass

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=6, alpha=1.0)


FLIPS = {"name": "labelflipping", "fraction": 0.5}


def test_with_nobody_hostile_a_run_is_the_plain_run_to_the_byte(task, tmp_path):
    for attack in ("labelflipping", "backdoor", "signflipping", "ipm", "freerider", "sybils"):
        plain, none = tmp_path / f"plain {attack}", tmp_path / f"none {attack}"
        fl.run(task, "fedavg", rounds=2, out=plain)
        fl.run(task, "fedavg", rounds=2, out=none, adversary={"name": attack, "fraction": 0})
        for name in ("metrics.jsonl", "clients.json", "partition.json"):
            assert (plain / name).read_bytes() == (none / name).read_bytes(), (attack, name)
        first, second = (sorted((folder / "checkpoints").rglob("*.safetensors")) for folder in (plain, none))
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second], attack


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


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["labelflipping", "backdoor", "freerider", "gaussiannoise", "minmax", "sybils"])
def test_workers_and_stops_change_no_byte(task, tmp_path, attack):
    adversary = {"name": attack, "fraction": 0.5, "start": 2, "stop": 3}
    whole = fl.run(task, "fedavg", rounds=4, adversary=adversary, out=tmp_path / "whole")
    two = fl.run(task, "fedavg", rounds=4, adversary=adversary, workers=2)
    assert torch.equal(whole.row, two.row)
    assert whole.records == two.records
    fl.run(task, "fedavg", rounds=3, adversary=adversary, out=tmp_path / "parts")
    resumed = fl.resume(tmp_path / "parts", rounds=4)
    assert torch.equal(whole.row, resumed.row)


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
