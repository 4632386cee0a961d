"""FedHybridAvgLGDual: what large clients send of their two models, and whom that serves."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.training.local_trainer import LocalTrainer
from support.checkpoints import WORK, final, same
from support.hybrids import first_round
from support.synthetic import SIZES, cohort, distance, mlp, small_task


def test_large_clients_of_the_dual_work_twice():
    once, twice = (
        fl.run(small_task(), kind(threshold=50), rounds=1, local=WORK, eval_every=0)
        for kind in (fl.FedHybridAvgLG, fl.FedHybridAvgLGDual)
    )
    steps = [LocalWork(**WORK).steps_for(size) for size in SIZES]
    assert once.total("steps") == sum(steps)
    assert twice.total("steps") == sum(steps) + steps[0] + steps[2]


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_the_dual_sends_the_shared_body_and_the_head_trained_on_the_own_body(execution):
    task = small_task()
    layout = task.layout
    everyone, reply, message = first_round(fl.FedHybridAvgLGDual(threshold=50), task, execution)
    alone = cohort(task, execution, LocalWork(**WORK))
    own_bodies = layout.put(message["row"], "body", layout.take(task.initial_row(), "body"))
    own = alone.train(torch.stack([own_bodies, message["row"], own_bodies, message["row"]]))
    shared = alone.train(alone.spread(message["row"]), only=torch.tensor([True, False, True, False]))
    sent = reply.tensors["row"]
    for client in (0, 2):
        assert same(layout.take(sent[client], "head"), layout.take(own[client], "head"))
        assert same(layout.take(sent[client], "body"), layout.take(shared[client], "body"))
        assert not same(layout.take(sent[client], "head"), layout.take(shared[client], "head"))
        assert same(everyone.kept_rows("body", torch.zeros(4, 1))[client], layout.take(own[client], "body"))
    for client in (1, 3):
        assert same(sent[client], own[client])
    assert everyone.after is not None
    assert same(everyone.after, own)


def test_private_bodies_of_the_dual_leave_no_trace_in_what_is_sent():
    task = small_task()
    layout, method, work = task.layout, fl.FedHybridAvgLGDual(threshold=50), LocalWork(**WORK)
    sent = []
    for scale in (0.0, 1.0):
        some = cohort(task, "vectorised", work)
        some.keep("body", scale * torch.ones(4, int(layout.columns("body").sum())), only=torch.ones(4).bool())
        sent.append(method.client_update(some, fl.Message({"row": task.initial_row()})).tensors["row"])
    assert same(layout.take(sent[0], "body"), layout.take(sent[1], "body"))
    assert not same(layout.take(sent[0], "head"), layout.take(sent[1], "head"))


def test_the_second_round_of_a_large_client_starts_from_its_own_body(tmp_path):
    task, method = small_task(), fl.FedHybridAvgLGDual(threshold=50)
    first = final(tmp_path / "one", method, task, rounds=1)
    second = final(tmp_path / "two", method, task, rounds=2)
    everyone = Cohort(list(range(4)), LocalTrainer(task, "vectorised"), RunSetting(LocalWork(**WORK), 3, 2), 2)
    bodies = first.client_states.rows["body"]
    trained = everyone.train(task.layout.put(everyone.spread(first.server["row"]), "body", bodies))
    assert distance(task.layout.take(trained, "body")[[0, 2]], second.client_states.rows["body"][[0, 2]]) < 1e-6


def organisations(seed: int) -> Task:
    """Twelve small clients that write inputs in the common way, and six large ones that mostly write in their own."""
    few, many, tested = [30] * 12, [400] * 6, 100
    generator = torch.Generator().manual_seed(seed)
    sizes = [size + tested for size in few + many]
    parts = torch.arange(sum(sizes)).split(sizes)
    meant = torch.randn(sum(sizes), 12, generator=generator)
    scores = (meant @ torch.randn(12, 8, generator=generator)).relu() @ torch.randn(8, 5, generator=generator)
    y = (scores - scores.mean(0)).argmax(1)
    x = torch.cat([meant, torch.zeros_like(meant)], 1)
    for part in parts[len(few) :]:
        turn, _ = torch.linalg.qr(torch.randn(12, 12, generator=generator))
        private = part[torch.rand(len(part), generator=generator) < 0.6]
        x[private] = torch.cat([torch.zeros(len(private), 12), meant[private] @ turn], 1)
    train, test = Ragged.of([part[tested:] for part in parts]), Ragged.of([part[:tested] for part in parts])
    return Task("u", Federation({"x": x, "y": y}, train, test, Ragged.empty(18), 5), mlp(24, 32, 5))


@pytest.mark.slow
def test_the_dual_serves_small_clients_like_fedavg_and_large_ones_like_lg_fedavg():
    """And sending private bodies is what costs the small clients of FedHybridAvgLG."""
    methods = {"avg": "fedavg", "lg": "lgfedavg", "avglg": fl.FedHybridAvgLG(200), "dual": fl.FedHybridAvgLGDual(200)}
    few, many = {}, {}
    for name, method in methods.items():
        work = {"lr": 0.1, "batch_size": 32, "epochs": 3}
        history = fl.run(organisations(0), method, rounds=40, local=work, eval_every=40)
        accuracy = torch.tensor([client["accuracy"] for client in history.clients])
        few[name], many[name] = accuracy[:12].mean(), accuracy[12:].mean()
    assert few["dual"] > few["avg"] - 0.03
    assert many["dual"] > many["lg"] - 0.03
    assert few["avg"] > few["lg"] + 0.1
    assert many["lg"] > many["avg"] + 0.1
    assert few["avglg"] < few["dual"] - 0.02
