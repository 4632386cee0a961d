"""Clustered methods: planted groups are found, and the FedAvg they all contain."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.methods.clustered import NO_CLUSTER, Clustered, trained_weights
from support.checkpoints import final, same
from support.clusters import replies, server_context
from support.synthetic import SIZES, cohort, federation, mlp, small_task

GROUPED = [40, 60, 50, 70, 45, 55, 65, 35]
METHODS = [fl.CFL(eps1=0.3, eps2=0.5, warmup=3), fl.FeSEM(), fl.IFCA()]


def contradicting_groups(classes: int = 4) -> Task:
    """Clients with the same inputs and the same rule, but every second one calls class c what others call c - 1."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(sum(GROUPED), 10, generator=generator)
    y = (x @ torch.randn(10, classes, generator=generator)).argmax(1)
    parts = torch.arange(sum(GROUPED)).split(GROUPED)
    for part in parts[1::2]:
        y[part] = (y[part] + 1) % classes
    own = Ragged.of(parts)
    return Task("planted", Federation({"x": x, "y": y}, own, own, Ragged.empty(8), classes), mlp(10, 16, classes))


# -- the FedAvg they contain


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("method", [fl.CFL(warmup=99), fl.FeSEM(clusters=1), fl.IFCA(clusters=1)], ids=type)
def test_a_single_cluster_is_fedavg_to_the_byte(tmp_path, method, execution):
    same_way = {"execution": execution, "selection": {"fraction": 0.5}, "rounds": 4}
    avg = final(tmp_path / "avg", "fedavg", small_task(), **same_way)
    clustered = final(tmp_path / "one", method, small_task(), **same_way)
    assert same(avg.server["row"][None], clustered.server["rows"])


def test_only_ifca_costs_more_bytes_than_fedavg():
    costs = {}
    for method in ("fedavg", "cfl", "fesem", "ifca:clusters=3"):
        history = fl.run(small_task(), method, rounds=2, eval_every=0)
        costs[method] = [history.total(what) for what in ("bytes_up", "bytes_down")]
    up, down = costs["fedavg"]
    assert costs["cfl"] == costs["fesem"] == [up, down]
    assert costs["ifca:clusters=3"] == [up + 2 * 4 * 4, 3 * down]  # a number more up, three models down


# -- planted groups


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("method", METHODS, ids=type)
def test_planted_groups_are_found_exactly(tmp_path, method, seed):
    work = {"epochs": 3, "batch_size": 16, "lr": 0.1}
    task = contradicting_groups()
    state = final(tmp_path / "run", method, task, rounds=10, seed=seed, local=work)
    cluster = state.server["cluster"]
    assert len(set(cluster[::2].tolist())) == len(set(cluster[1::2].tolist())) == 1
    assert cluster[0] != cluster[1]
    assert len(state.server["rows"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=type)
def test_groups_that_contradict_each_other_gain_by_being_told_apart(method):
    work = {"epochs": 3, "batch_size": 16, "lr": 0.1}
    accuracy = "client_model/own_test/accuracy/mean"
    together, apart = (
        fl.run(contradicting_groups(), kind, rounds=10, local=work, eval_every=10) for kind in ("fedavg", method)
    )
    assert apart.last(accuracy) > together.last(accuracy) + 0.2


# -- what they have in common


@pytest.mark.parametrize("method", METHODS, ids=type)
def test_clients_predict_with_the_model_of_their_cluster(tmp_path, method):
    task = contradicting_groups()
    state = final(tmp_path / "run", method, task, rounds=10)
    everyone = cohort(task, "vectorised", LocalWork())
    rows = method.weights_for(method.broadcast(state.server, list(range(8))), everyone)
    assert torch.equal(rows, state.server["rows"][state.server["cluster"]])


def test_a_client_that_never_took_part_gets_the_model_of_the_largest_cluster():
    server = {"rows": torch.tensor([[1.0], [2.0], [3.0]]), "cluster": torch.tensor([1, 2, 2, NO_CLUSTER, 0])}
    assert Clustered().broadcast(server, [3, 0, 4])["row"].flatten().tolist() == [3.0, 2.0, 1.0]


def test_running_statistics_have_no_say_in_who_is_near():
    model = nn.Sequential(nn.Linear(20, 6), nn.BatchNorm1d(6), nn.Linear(6, 5))
    task = Task("t", federation(SIZES), model)
    row = task.initial_row()
    other = row.clone()
    task.layout.views(other)["1.running_var"] += 100
    where = server_context(task, 2)
    assert torch.equal(*trained_weights(where, torch.stack([row, other])))
    nudged = row.clone()
    task.layout.views(nudged)["2.weight"] += 0.1
    state = {"rows": torch.stack([nudged, other]), "cluster": torch.zeros(4, dtype=torch.int64)}
    after = fl.FeSEM().aggregate(state, replies(where, [row.tolist()], [0], [1.0]))
    assert after["cluster"][0] == 1


@pytest.mark.parametrize("name", ["cfl", "fesem", "ifca"])
def test_there_is_no_single_model_that_a_server_optimiser_could_move(name):
    with pytest.raises(
        FedloomError, match=f"server_optimizer steps .*, and {name} has a model for each group of clients"
    ):
        fl.run(small_task(), name, rounds=1, server_optimizer={"kind": "yogi"})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fl.FeSEM(clusters=0), "clusters=0: it must be at least 1"),
        (lambda: fl.run(small_task(), fl.IFCA(clusters=5), rounds=1), "clusters=5 for 4 clients"),
    ],
)
def test_impossible_settings_are_refused(make, sentence):
    with pytest.raises(FedloomError, match=sentence):
        make()
