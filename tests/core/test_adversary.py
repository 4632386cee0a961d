"""Who is hostile, and whose data are poisoned."""

import itertools
from dataclasses import dataclass, replace

import pytest
import torch

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.registry.kinds import METHODS
from fedloom.runs.prepare import prepare


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
    run = prepare(task, METHODS.make(method), config).composition
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
        def look_at_replies(self, wave, replies):
            seen.append((list(wave.ids), {name: tensor.clone() for name, tensor in replies.tensors.items()}))
            return {"clients": len(wave.ids), "undefined": float("nan")}

    task = fl.task("digits", clients=3)
    plain, watched = (fl.run(task, "fedavg", rounds=2, adversary=one) for one in (None, Curious()))
    assert [ids for ids, _ in seen] == [[0, 1, 2]] * 2
    assert torch.equal(plain.row, watched.row)
    assert [record["metrics"]["adversary/clients"] for record in watched.records if record["round"]] == [3, 3]
    assert all("adversary/undefined" not in record["metrics"] for record in watched.records)
    assert [{**record["metrics"], "adversary/clients": 3} for record in plain.records[1:]] == [
        record["metrics"] for record in watched.records[1:]
    ]


@dataclass(frozen=True)
class Spy(fl.Adversary):
    """Hostile clients reply with the model of the round before, which they have seen and kept."""

    def look_at_message(self, message, cohort, hostile):
        received = cohort.spread(message["row"])
        cohort.keep("spy/before", cohort.kept_rows("spy/now", received), only=hostile)
        cohort.keep("spy/now", received, only=hostile)

    def poison_update(self, name, changes, cohort, hostile):
        return cohort.kept_rows("spy/before", changes) - cohort.kept_rows("spy/now", changes)


def test_hostile_clients_may_look_at_what_they_get_and_use_it_later():
    task, seen = fl.task("digits", clients=3), []

    @dataclass(frozen=True)
    class SpyAndServer(Spy):
        def look_at_replies(self, wave, replies):
            seen.append((wave.message["row"], replies["row"][1]))
            return {}

    one = fl.run(task, "fedavg", rounds=3, adversary=SpyAndServer(clients=[1]))
    for (before, _), (_, reply) in itertools.pairwise(seen):
        assert torch.allclose(reply, before, atol=1e-6)
    two = fl.run(task, "fedavg", rounds=3, workers=2, adversary=Spy(clients=[1]))
    assert torch.equal(one.row, two.row)


@dataclass(frozen=True)
class BackToTheStart(fl.Adversary):
    """The server sends the initial model in every round, with a little noise of the round."""

    def poison_message(self, wave, context):
        noise = torch.randn(context.layout.width, generator=context.generator("noise"))
        return fl.Message({"row": context.task.initial_row() + 1e-3 * noise})


def test_a_hostile_server_may_change_what_it_sends():
    task = fl.task("digits", clients=3)
    rows = [fl.run(task, "fedavg", rounds=rounds, adversary=BackToTheStart()).row for rounds in (1, 3)]
    plain = [fl.run(task, "fedavg", rounds=rounds).row for rounds in (1, 3)]
    assert (rows[0] - plain[0]).norm() < 0.5, "the first round starts from the initial model anyway"
    assert (rows[1] - task.initial_row()).norm() < 0.7 * (plain[1] - task.initial_row()).norm()


def wrong_attack(**methods):
    return dataclass(frozen=True)(type("Wrong", (fl.Adversary,), methods))(fraction=1.0)


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (wrong_attack(poison_task=lambda *_: None), "attack Wrong: poison_task must return a task, got None"),
        (wrong_attack(poison_update=lambda *_: None), "poison_update makes None of the changes of row"),
        (wrong_attack(poison_update=lambda _, __, changes, *___: changes[:, :3]), r"makes \(2, 3\) of the changes"),
        (wrong_attack(poison_message=lambda *_: None), "poison_message must return a message, got None"),
    ],
)
def test_an_attack_that_returns_something_else_is_refused_in_a_sentence(attack, said):
    with pytest.raises(fl.FedloomError, match=said):
        fl.run(fl.task("digits", clients=2), "fedavg", rounds=1, adversary=attack)
