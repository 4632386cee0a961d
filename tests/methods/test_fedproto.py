"""FedProto: what its prototypes are, what travels, and local training without its term."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.objective import SquaredError
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.training.batches import Assignment
from support.checkpoints import WORK, check_executions_and_workers_agree, final
from support.synthetic import SIZES, cohort, distance, federation, mlp, mlp_features, small_task


def task_of_few_classes() -> Task:
    """Three clients with the classes {0, 1}, {1, 2} and {2}, of five; nobody has 3 and 4."""
    generator = torch.Generator().manual_seed(5)
    y = torch.tensor([0] * 6 + [1] * 3 + [1] * 9 + [2] * 5 + [2] * 8)
    x = torch.randn(len(y), 20, generator=generator) + y[:, None]
    parts = Ragged.of(np.split(np.arange(len(y)), [9, 23]))
    return Task("sorted", Federation({"x": x, "y": y}, parts, parts, Ragged.empty(3), 5), mlp())


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_fedproto_without_its_term_is_local_training(tmp_path, execution):
    settings = {"execution": execution, "selection": {"number": 3}}
    proto = final(tmp_path / "proto", fl.FedProto(lam=0), small_task(), **settings)
    local = final(tmp_path / "local", "local", small_task(), **settings)
    assert torch.equal(local.client_states.has["row"], proto.client_states.has["row"])
    assert distance(local.client_states.rows["row"], proto.client_states.rows["row"]) < 1e-5
    other = final(tmp_path / "other", fl.FedProto(lam=10.0), small_task(), **settings)
    assert distance(local.client_states.rows["row"], other.client_states.rows["row"]) > 1e-3


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_prototypes_are_the_mean_features_of_all_samples_of_a_class(tmp_path, execution):
    """Weighted by counts, the mean of the clients' means is the mean over samples, each under its client's model."""
    task = task_of_few_classes()
    state = final(tmp_path / "run", "fedproto", task, rounds=1, execution=execution)
    assert state.server["known"].tolist() == [True, True, True, False, False]
    for label in range(3):
        seen = []
        for client in range(3):
            positions = task.federation.train[client]
            mine = positions[task.targets(positions) == label]
            seen.append(mlp_features(task, state.client_states.rows["row"][client], task.inputs(mine)))
        assert torch.allclose(state.server["prototypes"][label], torch.cat(seen).mean(0), atol=1e-5)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_step_of_fedproto_pulls_features_to_the_prototypes_that_are_known(execution):
    task, work = task_of_few_classes(), LocalWork(epochs=1, batch_size=4, lr=0.1)
    prototypes = torch.randn(2, 16, generator=torch.Generator().manual_seed(2))
    some = cohort(task, execution, work)
    fl.FedProto(lam=3.0).client_update(some, Message({"classes": torch.tensor([1, 4]), "prototypes": prototypes}))
    for client in range(3):
        row = task.initial_row()
        for positions in Assignment.of(client, task.federation.train[client], work, 3, 1):
            x, y, now = task.inputs(positions), task.targets(positions), row.clone().requires_grad_()
            z, head = mlp_features(task, now, x), task.layout.views(now)
            loss = F.cross_entropy(z @ head["4.weight"].t() + head["4.bias"], y)
            apart = ((z[y == 1] - prototypes[0]) ** 2).sum() / 16 / len(y)  # class 4 nobody has; 0 and 2 are not known
            row = row - 0.1 * torch.autograd.grad(loss + 3.0 * apart, now)[0]
        assert distance(row, some.kept["row"].rows[client]) < 1e-5


def test_what_nobody_sent_stays_as_it_was_known(tmp_path):
    """Only client 2 is asked again, and it only has class 2."""
    task = task_of_few_classes()
    method = fl.FedProto()
    before = final(tmp_path / "run", method, task, rounds=1).server
    some = cohort(task, "loop", LocalWork(), ids=[2])
    reply = method.client_update(some, method.broadcast(before, [2]))

    class FedProtoReplies(dict):
        combine = staticmethod(lambda rows, weights: weights @ rows)
        samples = some.samples

    after = method.aggregate(before, FedProtoReplies(reply.tensors))
    assert torch.equal(after["known"], before["known"])
    assert torch.equal(after["prototypes"][[0, 1, 3, 4]], before["prototypes"][[0, 1, 3, 4]])
    assert torch.equal(after["prototypes"][2], reply.tensors["prototypes"][0, 2])


def test_only_prototypes_of_classes_that_a_client_has_travel():
    """Up: 2, 2 and 1 classes of 16 features, a count and a label; down: what is known, nothing in the first round."""
    history = fl.run(task_of_few_classes(), "fedproto", rounds=2, local=WORK, eval_every=0)
    first, second = history.records
    one = 4 * (16 + 2)
    assert [first["bytes_up"], second["bytes_up"]] == [5 * one] * 2
    assert first["bytes_down"] == 0
    assert second["bytes_down"] == 3 * 3 * 4 * (16 + 1)


def test_clients_of_fedproto_predict_with_their_own_models(tmp_path):
    task = task_of_few_classes()
    state = final(tmp_path / "run", "fedproto", task, rounds=2, selection={"number": 2})
    has = state.client_states.has["row"].bool()
    some = cohort(task, "loop", LocalWork())
    some.kept = state.client_states.read([0, 1, 2])
    rows = fl.FedProto().weights_for(fl.FedProto().broadcast(state.server, [0, 1, 2]), some)
    assert torch.equal(rows[has], state.client_states.rows["row"][has])
    assert torch.equal(rows[~has], task.initial_row().expand(int((~has).sum()), -1))


def test_fedproto_draws_the_clients_features_of_a_class_together(tmp_path):
    """Class 1 is held by clients 0 and 1: with a strong pull their prototypes end nearer than by local training."""
    task = task_of_few_classes()

    def distance_of_means(lam: float) -> float:
        state = final(tmp_path / str(lam), fl.FedProto(lam=lam), task, rounds=20, checkpoint_every=99)
        rows = state.client_states.rows["row"]
        means = []
        for client in (0, 1):
            positions = task.federation.train[client]
            mine = positions[task.targets(positions) == 1]
            means.append(mlp_features(task, rows[client], task.inputs(mine)).mean(0))
        return float((means[0] - means[1]).norm())

    assert distance_of_means(10.0) < 0.7 * distance_of_means(0.0)


def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path):
    check_executions_and_workers_agree(tmp_path, fl.FedProto())


def test_impossible_settings_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match="lam=-1: it must be at least 0"):
        fl.FedProto(lam=-1)


def test_fedproto_refuses_a_task_without_classes():
    made = federation(SIZES)
    held = Federation(
        {"x": made.columns["x"], "y": torch.randn(sum(SIZES), 1)}, made.train, made.test, Ragged.empty(4), 1
    )
    with pytest.raises(
        FedloomError, match="fedproto averages features by class, but this task has no class per sample"
    ):
        fl.run(Task("t", held, mlp(classes=1), objective=SquaredError()), "fedproto", rounds=1)
