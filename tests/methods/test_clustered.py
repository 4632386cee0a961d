"""Clustered methods: planted groups are found, steps computed by hand, and the FedAvg they all contain."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import fedloom as fl
from fedloom.aggregation.mean import weighted_mean
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Replies
from fedloom.core.server_context import ServerContext
from fedloom.core.task import SquaredError, Task
from fedloom.data.federation import Federation, Ragged
from fedloom.methods.cfl import bipartition
from fedloom.methods.clustered import NO_CLUSTER, Clustered, trained_weights
from fedloom.methods.ifca import draw_row
from fedloom.runs.config_schema import RunConfig
from fedloom.runs.prepare import prepare
from support.checkpoints import final, same
from support.synthetic import cohort, federation, mlp

SIZES = [33, 9, 50, 20]
GROUPED = [40, 60, 50, 70, 45, 55, 65, 35]
METHODS = [fl.CFL(eps1=0.3, eps2=0.5, warmup=3), fl.FeSEM(), fl.IFCA()]


def small() -> Task:
    return Task("t", federation(SIZES), mlp())


def planted(classes: int = 4) -> Task:
    """Clients with the same inputs and the same rule, but every second one calls class c what others call c - 1."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(sum(GROUPED), 10, generator=generator)
    y = (x @ torch.randn(10, classes, generator=generator)).argmax(1)
    parts = torch.arange(sum(GROUPED)).split(GROUPED)
    for part in parts[1::2]:
        y[part] = (y[part] + 1) % classes
    own = Ragged.of(parts)
    return Task("planted", Federation({"x": x, "y": y}, own, own, Ragged.empty(8), classes), mlp(10, 16, classes))


def line(optima: list[float]) -> Task:
    """Clients with the loss (w - c)²/2 and a model of one weight that starts at 0; their test parts say 5 - c."""
    count = len(optima)
    x, y = torch.ones(2 * count, 1), torch.tensor([*optima, *(5 - c for c in optima)])[:, None]
    own, other = (Ragged.of(list(first + np.arange(count)[:, None])) for first in (0, count))
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    return Task("line", Federation({"x": x, "y": y}, own, other, Ragged.empty(count), 1), model, SquaredError())


def plane(clients: int) -> Task:
    """A model of two weights, so that rows are points that can be written down."""
    own = Ragged.of(list(np.arange(clients)[:, None]))
    held = Federation({"x": torch.ones(clients, 2), "y": torch.ones(clients, 1)}, own, own, Ragged.empty(clients), 1)
    return Task("plane", held, nn.Linear(2, 1, bias=False), SquaredError())


def context(task: Task, number: int, clients: list[int] | None = None, seed: int = 3) -> ServerContext:
    where = prepare(task, fl.FedAvg(), RunConfig(seed=seed)).composition.context(number)
    return where if clients is None else replace(where, clients=clients)


def replies(
    where: ServerContext, rows: list[list[float]], ids: list[int], weights: list[float], **more: torch.Tensor
) -> Replies:
    count = len(ids)
    shares = torch.tensor(weights)
    tensors = {"row": torch.tensor(rows), **more}
    return Replies(ids, tensors, torch.ones(count), torch.ones(count), shares, shares, weighted_mean, count, where)


# -- the FedAvg they contain


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("method", [fl.CFL(warmup=99), fl.FeSEM(clusters=1), fl.IFCA(clusters=1)], ids=type)
def test_a_single_cluster_is_fedavg_to_the_byte(tmp_path, method, execution):
    same_way = {"execution": execution, "selection": {"fraction": 0.5}, "rounds": 4}
    avg = final(tmp_path / "avg", "fedavg", small(), **same_way)
    clustered = final(tmp_path / "one", method, small(), **same_way)
    assert same(avg.server["row"][None], clustered.server["rows"])


def test_only_ifca_costs_more_bytes_than_fedavg():
    costs = {}
    for method in ("fedavg", "cfl", "fesem", "ifca:clusters=3"):
        history = fl.run(small(), method, rounds=2, eval_every=0)
        costs[method] = [history.total(what) for what in ("bytes_up", "bytes_down")]
    up, down = costs["fedavg"]
    assert costs["cfl"] == costs["fesem"] == [up, down]
    assert costs["ifca:clusters=3"] == [up + 2 * 4 * 4, 3 * down]  # a number more up, three models down


# -- planted groups


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("method", METHODS, ids=type)
def test_planted_groups_are_found_exactly(tmp_path, method, seed):
    work = {"epochs": 3, "batch_size": 16, "lr": 0.1}
    task = planted()
    state = final(tmp_path / "run", method, task, rounds=10, seed=seed, local=work)
    cluster = state.server["cluster"]
    assert len(set(cluster[::2].tolist())) == len(set(cluster[1::2].tolist())) == 1
    assert cluster[0] != cluster[1]
    assert len(state.server["rows"]) == 2


@pytest.mark.parametrize("method", METHODS, ids=type)
def test_groups_that_contradict_each_other_gain_by_being_told_apart(method):
    work = {"epochs": 3, "batch_size": 16, "lr": 0.1}
    accuracy = "client_model/own_test/accuracy/mean"
    together, apart = (fl.run(planted(), kind, rounds=10, local=work, eval_every=10) for kind in ("fedavg", method))
    assert apart.last(accuracy) > together.last(accuracy) + 0.2


# -- CFL, by hand


def angles(*degrees: float) -> torch.Tensor:
    return torch.tensor([[math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees]).double()


def test_updates_are_parted_by_complete_linkage_on_their_angles():
    """Single linkage would cut off the last one alone; complete linkage looks at the widest angle within a half."""
    assert bipartition(angles(0, 28, 60, 100)).tolist() == [False, False, True, True]
    assert bipartition(angles(0, 20, 40, 200)).tolist() == [False, False, False, True]
    assert bipartition(angles(200, 0, 20, 40)).tolist() == [True, False, False, False]


@given(st.lists(st.tuples(st.booleans(), st.floats(-30, 30), st.floats(0.1, 9)), min_size=3, max_size=8))
@settings(max_examples=60, deadline=None)
def test_two_bundles_of_directions_are_parted_whatever_their_lengths(clients):
    turned = torch.tensor([back for back, _, _ in clients])
    updates = angles(*(180 * back + angle for back, angle, _ in clients))
    leaving = bipartition(updates * torch.tensor([[length] for _, _, length in clients]))
    assert 0 < int(leaving.sum()) <= len(clients) / 2
    if turned.any() and not turned.all():
        assert torch.equal(leaving, turned) or torch.equal(leaving, ~turned)


OPPOSED = [[2.0, 0.1], [2.0, -0.1], [-2.0, 0.1], [-2.0, -0.1]]


def cfl_state(*clusters: int) -> dict[str, torch.Tensor]:
    return {"rows": torch.zeros(max(clusters) + 1, 2), "cluster": torch.tensor(clusters)}


def test_a_torn_cluster_is_split_and_each_half_gets_its_own_mean():
    where = context(plane(4), 21)
    state = fl.CFL().aggregate(cfl_state(0, 0, 0, 0), replies(where, OPPOSED, [0, 1, 2, 3], [0.3, 0.2, 0.1, 0.4]))
    assert state["cluster"].tolist() == [0, 0, 1, 1]
    assert torch.allclose(state["rows"], torch.tensor([[2.0, 0.02], [-2.0, -0.06]]))


@pytest.mark.parametrize(
    ("what", "method", "number", "ids"),
    [
        ("in round 20", fl.CFL(), 20, [0, 1, 2, 3]),
        ("while the mean still moves", fl.CFL(eps1=1e-6), 21, [0, 1, 2, 3]),
        ("while no client pulls hard", fl.CFL(eps2=2.1), 21, [0, 1, 2, 3]),
        ("without all of its clients", fl.CFL(), 21, [0, 1, 2]),
    ],
)
def test_a_cluster_is_not_split(what, method, number, ids):
    weights = [[0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.5]][len(ids) == 3]
    rows = torch.tensor(OPPOSED)[ids] + 1e-3
    state = method.aggregate(cfl_state(0, 0, 0, 0), replies(context(plane(4), number), rows.tolist(), ids, weights))
    assert state["cluster"].tolist() == [0, 0, 0, 0], what
    assert torch.allclose(state["rows"], torch.tensor([weights]) @ rows)


def test_a_cluster_of_two_is_not_split():
    where = context(plane(4), 21)
    state = fl.CFL().aggregate(cfl_state(0, 1, 1, 0), replies(where, OPPOSED, [0, 1, 2, 3], [0.25] * 4))
    assert state["cluster"].tolist() == [0, 1, 1, 0]


def test_clients_held_out_of_training_stay_with_the_larger_half():
    where = context(plane(5), 21, clients=[0, 2, 3, 4])
    rows = [OPPOSED[0], OPPOSED[2], OPPOSED[3], [-2.0, 0.0]]
    state = fl.CFL(eps1=1.5).aggregate(
        cfl_state(0, 0, 0, 0, 0), replies(where, rows, [0, 2, 3, 4], [0.4, 0.2, 0.2, 0.2])
    )
    assert state["cluster"].tolist() == [1, 0, 0, 0, 0]
    assert torch.allclose(state["rows"], torch.tensor([[-2.0, 0.0], [2.0, 0.1]]))


def test_a_cluster_without_a_reply_keeps_its_model():
    where = context(plane(4), 5)
    state = {"rows": torch.tensor([[1.0, 1.0], [7.0, 7.0]]), "cluster": torch.tensor([0, 0, 1, 1])}
    after = fl.CFL().aggregate(state, replies(where, [[3.0, 1.0], [5.0, 1.0]], [0, 1], [0.25, 0.75]))
    assert after["rows"].tolist() == [[4.5, 1.0], [7.0, 7.0]]


# -- FeSEM, by hand


def test_clients_go_to_the_nearest_centre_and_centres_to_the_mean_of_their_clients():
    where = context(plane(4), 2)
    state = {"rows": torch.tensor([[0.0, 0.0], [10.0, 0.0], [50.0, 50.0]]), "cluster": torch.tensor([1, 0, 0, 2])}
    rows = [[1.0, 0.0], [9.0, 2.0], [11.0, 0.0]]
    after = fl.FeSEM(clusters=3).aggregate(state, replies(where, rows, [0, 1, 3], [0.5, 0.2, 0.3]))
    assert after["cluster"].tolist() == [0, 1, 0, 1]
    assert torch.allclose(after["rows"], torch.tensor([[1.0, 0.0], [10.2, 0.8], [50.0, 50.0]]))


def test_centres_do_not_repel_each_other():
    """Two centres may come as near to each other as their clients are."""
    where = context(plane(2), 2)
    state = {"rows": torch.tensor([[0.0, 0.0], [10.0, 0.0]]), "cluster": torch.tensor([0, 1])}
    after = fl.FeSEM().aggregate(state, replies(where, [[4.9, 0.0], [5.1, 0.0]], [0, 1], [0.5, 0.5]))
    assert torch.allclose(after["rows"], torch.tensor([[4.9, 0.0], [5.1, 0.0]]))


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_first_centres_are_never_two_of_the_same_point(seed):
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]]).repeat(4, 1)
    chosen = fl.FeSEM(clusters=3).seeds(points, context(plane(2), 1, seed=seed))
    assert sorted(place % 3 for place in chosen) == [0, 1, 2]


def test_more_centres_than_different_models_are_no_obstacle(tmp_path):
    state = final(tmp_path / "run", fl.FeSEM(clusters=3), line([2.0, 2.0, 2.0]), rounds=2)
    assert set(state.server["cluster"].tolist()) == {0}


def test_the_first_centres_are_drawn_far_apart_more_often_than_near():
    """From 0, the points 1 and 3 are drawn with probabilities 1/10 and 9/10."""
    points = torch.tensor([[0.0], [1.0], [3.0]])
    where = context(plane(2), 1)
    drawn = [fl.FeSEM().seeds(points, replace(where, seed=seed)) for seed in range(600)]
    from_zero = [second for first, second in drawn if first == 0]
    assert 150 < len(from_zero) < 250  # 200 ± 4 standard deviations of a third of 600
    assert from_zero.count(2) / len(from_zero) == pytest.approx(0.9, abs=0.09)  # 4 standard deviations


# -- IFCA


def ifca_message(*weights: float) -> fl.Message:
    return fl.Message({"rows": torch.tensor(weights)[:, None]})


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_each_client_trains_and_predicts_with_the_model_of_least_training_loss(execution):
    task, work = line([1.0, 4.0, 2.0]), LocalWork(steps=1, batch_size=0, lr=0.5)
    message = ifca_message(0.0, 5.0)
    reply = fl.IFCA().client_update(cohort(task, execution, work), message)
    assert reply.tensors["choice"].tolist() == [0, 1, 0]
    assert reply.tensors["row"].flatten().tolist() == [0.5, 4.5, 1.0]  # half way to the client's optimum
    assert fl.IFCA().weights_for(message, cohort(task, execution, work)).flatten().tolist() == [0.0, 5.0, 0.0]


def test_each_model_becomes_the_mean_of_those_who_chose_it_or_stays():
    where = context(plane(4), 2)
    state = {"rows": torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), "cluster": torch.full((4,), NO_CLUSTER)}
    choice = torch.tensor([2, 0, 2], dtype=torch.int32)
    rows = [[1.0, 0.0], [8.0, 8.0], [5.0, 4.0]]
    after = fl.IFCA(clusters=3).aggregate(state, replies(where, rows, [0, 2, 3], [0.3, 0.6, 0.1], choice=choice))
    assert torch.allclose(after["rows"], torch.tensor([[8.0, 8.0], [1.0, 1.0], [2.0, 1.0]]))
    assert after["cluster"].tolist() == [2, NO_CLUSTER, 0, 2]


def started(task: Task, seed: int) -> torch.Tensor:
    method = fl.IFCA(clusters=3)
    game = method.prelude(method.start(task), context(task, 0, seed=seed))
    with pytest.raises(StopIteration) as end:
        next(game)
    return end.value.value["rows"]


def test_models_start_differently_and_the_same_in_every_run_of_a_seed():
    task = small()
    rows = started(task, 3)
    assert same(rows[0], task.initial_row())
    assert torch.pdist(rows).min() > 1
    assert same(rows, started(task, 3))
    assert torch.pdist(torch.stack([rows[1], started(task, 4)[1]])).item() > 1


def test_drawing_models_anew_touches_neither_frozen_layers_nor_statistics_nor_other_randomness():
    model = nn.Sequential(nn.Linear(20, 6), nn.BatchNorm1d(6), nn.Linear(6, 5))
    model[0].weight.requires_grad_(False)
    model[1].running_mean += 3
    task = Task("t", federation(SIZES), model)
    before, torch_state = task.initial_row(), torch.get_rng_state()
    row = draw_row(task, 1)
    moved = row != before
    views = task.layout.views(moved)
    assert not views["0.weight"].any()
    assert not views["1.running_mean"].any()
    assert views["2.weight"].all()
    assert torch.equal(torch_state, torch.get_rng_state())
    assert same(task.initial_row(), before)


def test_a_model_that_cannot_be_drawn_anew_is_refused():
    class Raw(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(20, 5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    task = Task("t", federation(SIZES), Raw())
    with pytest.raises(FedloomError, match="no layer of Raw can be reset"):
        fl.run(task, "ifca", rounds=1)
    fl.run(task, fl.IFCA(clusters=1), rounds=1)


# -- what they have in common


@pytest.mark.parametrize("method", METHODS, ids=type)
def test_clients_predict_with_the_model_of_their_cluster(tmp_path, method):
    task = planted()
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
    where = context(task, 2)
    assert torch.equal(*trained_weights(where, torch.stack([row, other])))
    nudged = row.clone()
    task.layout.views(nudged)["2.weight"] += 0.1
    state = {"rows": torch.stack([nudged, other]), "cluster": torch.zeros(4, dtype=torch.int64)}
    after = fl.FeSEM().aggregate(state, replies(where, [row.tolist()], [0], [1.0]))
    assert after["cluster"][0] == 1


@pytest.mark.parametrize("name", ["cfl", "fesem", "ifca"])
def test_there_is_no_single_model_that_a_server_optimiser_could_move(name):
    with pytest.raises(FedloomError, match=f"{name} has no shared model that a server optimiser could update"):
        fl.run(small(), name, rounds=1, server_optimizer={"kind": "yogi"})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fl.FeSEM(clusters=0), "clusters=0: it must be at least 1"),
        (lambda: fl.CFL(eps1=0), "eps1=0: the bound on the norm of updates must be positive"),
        (lambda: fl.CFL(eps2=math.nan), "eps2=nan: the bound on the norm of updates must be positive"),
        (lambda: fl.CFL(warmup=-1), "warmup=-1: the number of rounds before a split must not be negative"),
        (lambda: fl.run(small(), fl.IFCA(clusters=5), rounds=1), "clusters=5 for 4 clients"),
    ],
)
def test_impossible_settings_are_refused(make, sentence):
    with pytest.raises(FedloomError, match=sentence):
        make()
