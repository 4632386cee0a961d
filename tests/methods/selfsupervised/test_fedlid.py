"""FedLID: FedAvg without its server, the server's step by hand, and the classifier that is kept aside."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.seeds import generator, key
from fedloom.core.task import Task
from fedloom.methods.selfsupervised.fedlid import share_of
from fedloom.training.batches import Assignment
from support.checkpoints import check_executions_and_workers_agree, final, same
from support.small_images import ONE_STEP, SEED, adapted, hidden, layers, nt_xent_by_hand, project, two_clients
from support.synthetic import distance, small_task

METHOD = fl.FedLID(projection=4, temperature=0.7, server_epochs=1, server_batch=0, server_lr=0.3)
SUPERVISED = replace(METHOD, server_loss="supervised")


def mean_of_clients(task: Task, folder: object) -> torch.Tensor:
    """FedAvg's first round, in the columns of the adapted row."""
    plain = final(folder, "fedavg", two_clients(), rounds=1, local=ONE_STEP)  # type: ignore[arg-type]
    row = task.initial_row()
    row[METHOD.columns(task)] = plain.server["row"]
    return row


def images_of_the_server(task: Task) -> torch.Tensor:
    """The server's images in the order of its first step."""
    seed = key(SEED, "fedlid", 1, 0)
    (order,) = Assignment.of(0, task.federation.server, LocalWork(epochs=1, batch_size=0), seed, 1)
    return order


def test_without_epochs_at_the_server_it_is_fedavg_to_the_byte(tmp_path):
    plain = final(tmp_path / "fedavg", "fedavg", small_task())
    assert same(plain.server["row"], final(tmp_path / "fedlid", fl.FedLID(server_epochs=0), small_task()).server["row"])


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_round_is_fedavgs_and_a_step_of_simclr_by_hand(tmp_path, execution):
    task = adapted(METHOD)
    state = final(tmp_path / "run", METHOD, two_clients(), rounds=1, local=ONE_STEP, execution=execution)
    start = mean_of_clients(task, tmp_path / "fedavg")
    now, order = start.clone().requires_grad_(), images_of_the_server(task)
    both = METHOD.augmentation.two_views(task.inputs(order), generator(key(SEED, "fedlid", 1, 0), "augment", 1, 0))
    loss = nt_xent_by_hand(*(project(task, now, both[:, k]) for k in range(2)), 0.7)
    wanted = start - 0.3 * torch.autograd.grad(loss, now)[0]
    assert distance(wanted, state.server["row"]) < 1e-5
    assert not torch.equal(task.layout.take(wanted, "projection"), task.layout.take(start, "projection"))


def test_a_supervised_server_steps_on_the_cross_entropy_of_its_own_classifier(tmp_path):
    task = adapted(SUPERVISED)
    state = final(tmp_path / "run", SUPERVISED, two_clients(), rounds=1, local=ONE_STEP)
    start = mean_of_clients(task, tmp_path / "fedavg")
    now, order = start.clone().requires_grad_(), images_of_the_server(task)
    (own,) = layers(task, now, "server_classifier")
    loss = F.cross_entropy(F.linear(hidden(task, now, task.inputs(order)), *own), task.targets(order))
    assert distance(start - 0.3 * torch.autograd.grad(loss, now)[0], state.server["row"]) < 1e-5


@pytest.mark.parametrize("method", [METHOD, SUPERVISED], ids=["simclr", "supervised"])
def test_the_classifier_is_the_mean_of_the_clients_and_the_body_is_not(tmp_path, method):
    """Weight decay would move the classifier too, if it were not kept aside."""
    work = {**ONE_STEP, "weight_decay": 0.1}
    state = final(tmp_path / "run", method, two_clients(), rounds=1, local=work)
    plain = final(tmp_path / "fedavg", "fedavg", two_clients(), rounds=1, local=work)
    task, layout = adapted(method), two_clients().layout
    head, body = (task.layout.take(state.server["row"], part) for part in ("head", "body"))
    assert distance(head, layout.take(plain.server["row"], "head")) < 1e-6
    assert distance(body, layout.take(plain.server["row"], "body")) > 1e-4


def test_the_projection_head_goes_on_at_the_server_and_never_travels(tmp_path):
    task = adapted(METHOD)
    heads = [
        task.layout.take(final(tmp_path / str(r), METHOD, two_clients(), rounds=r).server["row"], "projection")
        for r in (1, 2)
    ]
    start = task.layout.take(task.initial_row(), "projection")
    assert not torch.equal(heads[0], start)
    assert not torch.equal(heads[1], heads[0])
    plain, lid = (fl.run(two_clients(), method, rounds=2, local=ONE_STEP) for method in ("fedavg", METHOD))
    for cost in ("bytes_up", "bytes_down", "steps"):
        assert plain.total(cost) == lid.total(cost)


def test_shares_of_the_servers_set_are_nested_and_depend_on_the_seed_only():
    own = torch.arange(100, 140)
    few, more, other = share_of(own, 0.2, 1), share_of(own, 0.4, 1), share_of(own, 0.2, 2)
    assert (len(few), len(more)) == (8, 16)
    assert set(few.tolist()) < set(more.tolist()) < set(own.tolist())
    assert few.tolist() == sorted(few.tolist()) == share_of(own, 0.2, 1).tolist()
    assert few.tolist() != other.tolist()
    assert torch.equal(share_of(own, 1.0, 1), own)
    assert len(share_of(own, 0.001, 1)) == 1


def test_a_server_that_uses_a_share_looks_at_no_other_image(tmp_path):
    method, task = replace(METHOD, share=0.4), two_clients()
    used = share_of(task.federation.server, 0.4, SEED).tolist()
    x = task.federation.columns["x"].clone()
    x[[place for place in task.federation.server.tolist() if place not in used]] += 1
    other = replace(task, federation=replace(task.federation, columns={**task.federation.columns, "x": x}))
    rows = [final(tmp_path / str(i), method, one, rounds=2).server["row"] for i, one in enumerate((task, other))]
    assert same(*rows)
    whole = [final(tmp_path / f"{i} whole", METHOD, one, rounds=2).server["row"] for i, one in enumerate((task, other))]
    assert not same(*whole)


def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path):
    check_executions_and_workers_agree(tmp_path, METHOD, two_clients(7))


def test_impossible_settings_and_tasks_are_refused_with_a_sentence():
    for settings, sentence in {
        "share=0": "share=0 in method fedlid: it must be above 0 and at most 1",
        "server_epochs=-1": "server_epochs=-1 in method fedlid: it must be at least 0",
        "server_lr=0": "server_lr=0 in method fedlid: it must be above 0",
    }.items():
        with pytest.raises(FedloomError, match=sentence):
            fl.run(two_clients(), f"fedlid:{settings}", rounds=1)
    with pytest.raises(FedloomError, match="fedlid's server trains on a set of its own, but the task has none"):
        fl.run(two_clients(server=0), "fedlid", rounds=1)
    blind = two_clients()
    blind = replace(blind, federation=replace(blind.federation, server_labelled=False))
    with pytest.raises(FedloomError, match="server_loss=supervised needs the labels of the server's set"):
        fl.run(blind, SUPERVISED, rounds=1)
