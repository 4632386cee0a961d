"""Updates over rounds: what is exact for one sample, the metric by its definition, and far more than a loss tells."""

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.attacks.membership import update_alignment as module
from fedloom.attacks.membership.loss_threshold import loss_threshold
from fedloom.attacks.membership.update_alignment import Whitening, alignment_scores, update_alignment
from fedloom.attacks.reconstruction.gradients import gradient, inputs_of, sample_gradients
from fedloom.audits.updates_of_run import updates_of_run
from fedloom.core.errors import FedloomError
from fedloom.data.federation import Ragged
from support.synthetic import federation

ROUNDS = 3
PRIVATE = {"epsilon": 2.0, "delta": 1e-5, "seeded": True}


@pytest.fixture(scope="module")
def small():
    return fl.task("digits", clients=30)


@pytest.fixture(scope="module")
def played(small):
    return updates_of_run(small, "fedavg", rounds=ROUNDS, eval_every=0)


def parts(task, clients=range(10)):
    made = task.federation
    return {client: made.train[client] for client in clients}, {client: made.test[client] for client in clients}


def test_the_gradients_of_samples_have_the_gradient_of_their_mean_loss_as_mean(small):
    row, positions = small.initial_row(), small.federation.train[3]
    whole = gradient(small, row, inputs_of(small, positions), small.targets(positions))
    torch.testing.assert_close(sample_gradients(small, row, positions).mean(0), whole, atol=1e-6, rtol=1e-5)


def test_the_metric_is_the_inverse_of_the_servers_gradients_and_the_ridge():
    generator = torch.Generator().manual_seed(0)
    own, rows = (torch.randn(n, 7, generator=generator, dtype=torch.float64) for n in (4, 3))
    inner = own @ own.T
    ridge = torch.tensor(0.3, dtype=torch.float64)
    factor = torch.linalg.cholesky(inner + ridge * torch.eye(4, dtype=torch.float64))
    direct = torch.linalg.inv(own.T @ own + ridge * torch.eye(7, dtype=torch.float64))
    metric = Whitening(own, ridge, factor)
    torch.testing.assert_close(metric.whiten(rows), rows @ direct)
    cosine = (rows[0] @ direct @ rows[1]) / ((rows[0] @ direct @ rows[0]) * (rows[1] @ direct @ rows[1])).sqrt()
    torch.testing.assert_close(metric.cosines(rows[:1], rows[1])[0], cosine)


def test_of_a_client_with_one_sample_the_update_points_exactly_where_the_sample_does():
    task = fl.task_of(federation([1, 30, 30], shape=(5,), classes=2), "mlp")
    seen, _ = updates_of_run(task, "fedavg", rounds=1, local={"epochs": 1, "batch_size": 0, "lr": 0.1}, eval_every=0)
    asked = torch.cat([task.federation.train[0], task.federation.train[1]])
    scores = alignment_scores(task, seen, {0: asked}, task.federation.train[2])[0]
    assert float(scores[0]) == pytest.approx(1.0, abs=1e-4)
    assert float(scores[1:].max()) < 0.99


def test_it_tells_far_more_of_clients_with_40_images_than_any_loss(small, played):
    seen, history = played
    members, others = parts(small)
    found = update_alignment(small, seen, members, others, small.federation.global_test)
    final = loss_threshold(small, history.row, small.federation.train.order, small.federation.test.order)
    assert found.members == sum(map(len, members.values()))
    assert found.auc > 0.75
    assert final.auc < 0.55


@pytest.mark.slow
def test_more_rounds_tell_more_and_the_plain_cosine_less(small, played, monkeypatch):
    seen, _ = played
    members, others = parts(small)
    own = small.federation.global_test
    all_rounds = update_alignment(small, seen, members, others, own).auc
    first = update_alignment(small, seen[:30], members, others, own).auc
    monkeypatch.setattr(module, "RIDGE", 1e9)  # so much that nothing is divided out
    plain = update_alignment(small, seen, members, others, own).auc
    assert all_rounds > first + 0.01
    assert 0.5 < plain < first - 0.15


@pytest.mark.slow
def test_the_sum_of_30_clients_and_the_noise_of_epsilon_2_take_most_of_it_away(small, played):
    members, others = parts(small, range(30))
    own, found = small.federation.global_test, {}
    for name, protection in {"sum": {"channel": ["securesum"]}, "noise": {"sample_privacy": PRIVATE}}.items():
        seen, _ = updates_of_run(small, "fedavg", rounds=1, eval_every=0, **protection)
        found[name] = update_alignment(small, seen, members, others, own).auc
    bare = update_alignment(small, played[0][:30], members, others, own).auc
    assert max(found.values()) < 0.6 < bare - 0.1, found


def test_what_cannot_be_asked_is_refused(small, played):
    seen, own = played[0], small.federation.global_test
    with pytest.raises(FedloomError, match="the server saw no update of client 2: ask for clients that took part"):
        alignment_scores(small, [one for one in seen if one.clients != (2,)], {2: own[:3]}, own)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedper"])
def test_numbers_are_asked_by_the_task_s_own_loss_and_parts_of_a_model_by_what_is_sent(method):
    made = federation([15, 15, 15], shape=(12,))
    half = Ragged.of([part[:5].numpy() for part in made.train])
    columns = {**made.columns, "y": made.columns["x"].sum(1) + 3 * made.columns["y"]}
    task = fl.task_of(replace(made, columns=columns, classes=1, train=half), "mlp")
    seen, _ = updates_of_run(task, method, rounds=1, eval_every=0, local={"epochs": 3, "batch_size": 0, "lr": 0.05})
    members = {client: half[client] for client in range(3)}
    others = {client: made.train[client][5:10] for client in range(3)}
    own = torch.cat([made.train[client][10:] for client in range(3)])
    assert update_alignment(task, seen, members, others, own).auc > 0.7
