"""FedCon: a round of clients and server by hand, the target network, and labels that are never looked at."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.checkpoints import check_executions_and_workers_agree, final, same
from support.small_images import ONE_STEP, adapted, hidden, layers, two_clients, views
from support.synthetic import distance

METHOD = fl.FedCon(projection=8, momentum=0.75, server_epochs=1)
SETTINGS = {"local": ONE_STEP, "weight_by": "uniform"}


def head(task: fl.Task, row: torch.Tensor, name: str, x: torch.Tensor) -> torch.Tensor:
    inside, norm, last = layers(task, row, f"{name}.0", f"{name}.1", f"{name}.3")
    return F.linear(F.relu(F.layer_norm(F.linear(x, *inside), (len(norm[0]),), *norm)), *last)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_two_rounds_of_clients_and_server_by_hand(tmp_path, execution):
    task = adapted(METHOD)
    state = final(tmp_path, METHOD, two_clients(), rounds=2, execution=execution, **SETTINGS)
    row, targets = task.initial_row(), None
    encoder, own = METHOD.columns(task), task.federation.server
    for number in (1, 2):
        targets = [row, row] if targets is None else targets
        trained = []
        for client in range(2):
            now, both = row.clone().requires_grad_(), views(METHOD, task, client, number=number)
            z, t = (
                [head(task, w, "projection", hidden(task, w, both[:, k])) for k in range(2)]
                for w in (now, targets[client])
            )
            p = [head(task, now, "predictor", one) for one in z]
            loss = 2 - sum(F.cosine_similarity(p[k], t[1 - k]).mean() for k in range(2))
            trained.append(row - 0.1 * torch.autograd.grad(loss, now)[0])
        targets = [0.75 * target + 0.25 * online for target, online in zip(targets, trained, strict=True)]
        row = torch.where(encoder, torch.stack(trained).mean(0), row).requires_grad_()
        (last,) = layers(task, row, "model.4")
        loss = F.cross_entropy(F.linear(hidden(task, row, task.inputs(own)), *last), task.targets(own))
        row = (row - 0.1 * torch.autograd.grad(loss, row)[0]).detach()
    assert distance(row, state.server["row"]) < 1e-4
    assert distance(torch.stack(targets), state.client_states.rows["target"]) < 1e-4


def test_labels_of_clients_are_never_looked_at(tmp_path):
    task = two_clients()
    columns = dict(task.federation.columns)
    columns["y"] = torch.where(torch.arange(len(columns["y"])) < 6, 0, columns["y"])
    blind = replace(task, federation=replace(task.federation, columns=columns))
    rows = [final(tmp_path / str(i), METHOD, one, **SETTINGS).server["row"] for i, one in enumerate((task, blind))]
    assert same(*rows)


def test_the_classifier_goes_down_and_does_not_come_back():
    history = fl.run(two_clients(), METHOD, rounds=1, local=ONE_STEP)
    task = adapted(METHOD)
    encoder = 4 * int(METHOD.columns(task).sum())
    assert history.total("bytes_up") == 2 * encoder
    assert history.total("bytes_down") == 2 * 4 * task.layout.width


@pytest.mark.slow
def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path):
    check_executions_and_workers_agree(tmp_path, METHOD, two_clients(7), rounds=1)  # rounding grows in layer norms


def test_impossible_settings_and_tasks_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match="momentum=2: it must be at least 0 and at most 1"):
        fl.FedCon(momentum=2)
    with pytest.raises(FedloomError, match="fedcon's labels are at the server, but the task has no labelled server"):
        fl.run(two_clients(server=0), "fedcon", rounds=1)
    other = two_clients()
    other = replace(other, federation=replace(other.federation, server_classes=10))
    with pytest.raises(FedloomError, match="10 classes of its own, and not the 3 of task"):
        fl.run(other, "fedcon", rounds=1)
    other = replace(other, federation=replace(other.federation, server_classes=3, server_is_foreign=True))
    with pytest.raises(FedloomError, match="3 classes of its own, and not the 3 of task"):
        fl.run(other, "fedcon", rounds=1)
