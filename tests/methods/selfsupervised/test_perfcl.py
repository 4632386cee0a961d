"""PerFCL: its loss by hand, FedPer without it, and what stays with clients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.task import Task
from support.checkpoints import check_executions_and_workers_agree, final
from support.small_images import ONE_STEP, adapted, batches, hidden, layers, project, two_clients
from support.synthetic import cohort, distance, federation, perturb, small_task

METHOD = fl.PerFCL(mu=2.0, temperature=0.7, projection=4)


def test_without_contrast_it_is_fedper(tmp_path):
    plain = final(tmp_path / "fedper", "fedper", small_task(), execution="loop")
    shared = final(tmp_path / "perfcl", fl.PerFCL(mu=0, projection=4), small_task(), execution="loop")
    task = fl.PerFCL(mu=0, projection=4).adapt_task(small_task())
    layout = small_task().layout
    bodies = (layout.take(plain.server["row"], "body"), task.layout.take(shared.server["row"], "body"))
    assert distance(*bodies) < 1e-6
    heads = plain.client_states.rows["head"], task.layout.take(shared.client_states.rows["row"], "head")
    assert distance(*heads) < 1e-6


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_step_is_the_gradient_of_both_contrasts_by_hand(execution):
    task = adapted(METHOD)
    start = task.initial_row()
    last = torch.stack([perturb(start, client) for client in range(2)])
    some = cohort(task, execution, LocalWork(**ONE_STEP))
    some.keep("row", last)
    columns = METHOD.columns(task)
    reply = METHOD.client_update(some, Message({"shared": start[columns]}))
    for client in range(2):
        received = torch.where(columns, start, last[client])
        (positions,) = batches(task, client)
        x, y, now = task.inputs(positions), task.targets(positions), received.clone().requires_grad_()
        (head,) = layers(task, now, "model.4")
        u, v = project(task, now, x), project(task, now, x, "personal")
        u_received, v_last = project(task, received, x), project(task, last[client], x, "personal")

        def contrast(z: torch.Tensor, near: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
            a, b = (torch.exp(F.cosine_similarity(z, other) / 0.7) for other in (near, far))
            return -torch.log(a / (a + b)).mean()

        loss = F.cross_entropy(F.linear(hidden(task, now, x), *head), y)
        loss = loss + 2.0 * (contrast(u, u_received, v) + contrast(v, v_last, u_received))
        wanted = received - 0.1 * torch.autograd.grad(loss, now)[0]
        assert distance(wanted[columns], reply.tensors["shared"][client]) < 1e-5
        assert distance(wanted, some.kept["row"].rows[client]) < 1e-5


def test_classifiers_and_personal_heads_stay_with_their_clients(tmp_path):
    state = final(tmp_path, METHOD, two_clients(), rounds=2)
    task = adapted(METHOD)
    own = ~METHOD.columns(task)
    assert torch.equal(state.server["row"][own], task.initial_row()[own])
    assert not torch.equal(*state.client_states.rows["row"][:, own])


@pytest.mark.slow
def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path):
    check_executions_and_workers_agree(tmp_path, METHOD)


def test_impossible_settings_and_models_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match="mu=-1: it must be at least 0"):
        fl.PerFCL(mu=-1)
    with pytest.raises(FedloomError, match="projection=0: it must be at least 1"):
        fl.PerFCL(projection=0)
    model = nn.Sequential(nn.Linear(20, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 5))
    model.parts = {"head": ["4"], "middle": ["2"]}
    with pytest.raises(
        FedloomError, match="perfcl needs a model with a body and a head, but this one has body, middle"
    ):
        fl.run(Task("t", federation([9, 9]), model), "perfcl", rounds=1)
