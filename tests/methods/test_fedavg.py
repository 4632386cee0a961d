"""FedAvg: what its mean is, and where it stops on clients that can be computed by hand."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from support.checkpoints import WORK, checkpoint_tensors, final_row
from support.drift_control import BOTH_WAYS, LOCAL, fedavg_fixed_point, least_squares_task, optimum
from support.quadratic import quadratic
from support.synthetic import SIZES, distance, federation, mlp, small_task, train_all

# -- identities


def test_a_server_that_takes_the_whole_change_is_fedavg_to_rounding(tmp_path):
    plain = final_row(tmp_path / "avg", "fedavg")
    taken = final_row(tmp_path / "sgd", "fedavg", server_optimizer={"kind": "sgd", "lr": 1.0})
    assert distance(plain, taken) < 1e-6
    half = final_row(tmp_path / "half", "fedavg", rounds=1, server_optimizer={"kind": "sgd", "lr": 0.5})
    start = small_task().initial_row()
    assert distance((start + final_row(tmp_path / "one", "fedavg", rounds=1)) / 2, half) < 1e-6


def test_a_single_client_is_trained_as_if_nothing_were_federated(tmp_path):
    task = Task("t", federation([40]), mlp())
    work = LocalWork(**WORK)
    assert torch.equal(final_row(tmp_path / "run", "fedavg", task, rounds=1), train_all(task, "vectorised", work)[0])


# -- the mean


@pytest.mark.parametrize("by", ["samples", "steps", "uniform"])
def test_the_new_row_is_the_mean_weighted_as_asked(tmp_path, by):
    task = small_task()
    alone = train_all(task, "vectorised", LocalWork(**WORK))
    steps = torch.tensor([6.0, 2.0, 8.0, 4.0])  # two epochs of 3, 1, 4 and 2 batches of at most 16
    raw = {"samples": torch.tensor(SIZES).float(), "steps": steps, "uniform": torch.ones(4)}[by]
    expected = ((raw / raw.sum())[:, None] * alone).sum(0)
    assert distance(expected, final_row(tmp_path / by, "fedavg", task, rounds=1, weight_by=by)) < 1e-6
    others = {"samples", "steps", "uniform"} - {by}
    for other in others:
        assert not torch.equal(final_row(tmp_path / other, "fedavg", task, rounds=1, weight_by=other), expected)


def test_weights_are_shared_among_those_who_were_selected(tmp_path):
    task = small_task()
    history = fl.run(
        task, "fedavg", rounds=1, seed=3, local=WORK, selection={"number": 2}, eval_every=0, out=tmp_path / "run"
    )
    ids = history.records[-1]["selected"]
    assert len(ids) == 2
    sizes = torch.tensor([float(SIZES[client]) for client in ids])
    expected = ((sizes / sizes.sum())[:, None] * train_all(task, "vectorised", LocalWork(**WORK), ids)).sum(0)
    assert distance(expected, checkpoint_tensors(tmp_path / "run")["server/row"]) < 1e-6


# -- where it stops: quadratic clients


def test_fedavg_with_many_local_steps_stops_at_the_mean_of_the_clients_optima(tmp_path):
    """Each client reaches its own optimum c, whatever its curvature: the mean of c, not the least joint loss."""
    task = quadratic([0.0, 6.0], [1.0, 2.0])
    work = {"steps": 200, "batch_size": 0, "lr": 0.3}
    assert final_row(tmp_path / "many", "fedavg", task, rounds=2, local=work).item() == pytest.approx(3.0, abs=1e-5)


def test_fedavg_with_one_step_stops_at_the_least_joint_loss(tmp_path):
    """The joint loss has its minimum at Σac / Σa = 12/3."""
    task = quadratic([0.0, 6.0], [1.0, 2.0])
    work = {"steps": 1, "batch_size": 0, "lr": 0.3}
    assert final_row(tmp_path / "one", "fedavg", task, rounds=60, local=work).item() == pytest.approx(4.0, abs=1e-5)


@BOTH_WAYS
def test_fedavg_stops_beside_the_optimum_where_its_steps_balance(tmp_path, by, execution):
    task = least_squares_task()
    found = final_row(tmp_path / "run", "fedavg", task, rounds=40, local=LOCAL, weight_by=by, execution=execution)
    assert distance(fedavg_fixed_point(task, by), found.double()) < 1e-4
    assert distance(optimum(task, by, [0, 1, 2, 3]), found.double()) > 0.05
