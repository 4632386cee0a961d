"""The hybrids: what small and large clients load, train, send and keep, and the methods they become at the ends."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.data.federation import Ragged
from support.checkpoints import WORK, final, same
from support.hybrids import first_round
from support.synthetic import SIZES, cohort, distance, federation, mlp, small_task

HELD = [66, 18, 100, 40]  # each client's test part is its training part
HYBRIDS = [fl.FedHybridAvgLG, fl.FedHybridAvgLGDual]
SOME = {"selection": {"fraction": 0.5}, "rounds": 5}

# -- the methods they become


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("hybrid", HYBRIDS)
def test_with_small_clients_only_a_hybrid_is_fedavg_to_the_byte(tmp_path, hybrid, execution):
    avg = final(tmp_path / "avg", "fedavg", small_task(), execution=execution, **SOME)
    mixed = final(tmp_path / "mixed", hybrid(threshold=math.inf), small_task(), execution=execution, **SOME)
    assert same(avg.server["row"], mixed.server["row"])
    assert not any(has.any() for has in mixed.client_states.has.values())


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("hybrid", HYBRIDS)
def test_with_large_clients_only_a_hybrid_has_the_heads_and_bodies_of_lg_fedavg(tmp_path, hybrid, execution):
    task = small_task()
    lg = final(tmp_path / "lg", "lgfedavg", task, execution=execution, **SOME)
    mixed = final(tmp_path / "mixed", hybrid(threshold=0), task, execution=execution, **SOME)
    heads = [task.layout.take(state.server["row"], "head") for state in (lg, mixed)]
    assert distance(*heads) < 1e-6  # a sum over clients may round differently where rows are wider
    assert distance(lg.client_states.rows["body"], mixed.client_states.rows["body"]) < 1e-6
    assert distance(lg.server["row"], mixed.server["row"]) > 1e-3


@pytest.mark.parametrize("hybrid", HYBRIDS)
def test_a_large_client_sends_the_head_and_keeps_the_body_of_lg_fedavg_to_the_byte(hybrid):
    task, work = small_task(), LocalWork(**WORK)
    layout, row = task.layout, task.initial_row()
    one, two = cohort(task, "vectorised", work), cohort(task, "vectorised", work)
    lg = fl.LGFedAvg().client_update(one, fl.Message({"head": layout.take(row, "head")}))
    mixed = hybrid(threshold=0).client_update(two, fl.Message({"row": row}))
    assert same(lg.tensors["head"], layout.take(mixed.tensors["row"], "head"))
    assert same(one.kept["body"].rows, two.kept["body"].rows)


@pytest.mark.parametrize("hybrid", HYBRIDS)
def test_a_hybrid_costs_as_many_bytes_as_fedavg(hybrid):
    costs = []
    for method in ("fedavg", hybrid(threshold=50)):
        history = fl.run(small_task(), method, rounds=2, local=WORK, eval_every=0)
        costs.append([history.total(what) for what in ("bytes_up", "bytes_down")])
    assert costs[0] == costs[1]


# -- one round, by hand


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_avglg_sends_what_it_trained_private_bodies_included(execution):
    task = small_task()
    layout = task.layout
    everyone, reply, message = first_round(fl.FedHybridAvgLG(threshold=50), task, execution)
    alone = cohort(task, execution, LocalWork(**WORK))
    own_bodies = layout.put(message["row"], "body", layout.take(task.initial_row(), "body"))
    starts = torch.stack([own_bodies, message["row"], own_bodies, message["row"]])
    expected = alone.train(starts)
    assert same(reply.tensors["row"], expected)
    assert everyone.has("body").tolist() == [True, False, True, False]
    kept = everyone.kept_rows("body", torch.zeros(4, 1))
    assert same(kept[[0, 2]], layout.take(expected, "body")[[0, 2]])


@pytest.mark.parametrize("hybrid", HYBRIDS)
def test_large_clients_predict_with_their_body_and_the_new_head(hybrid):
    task = small_task()
    everyone = first_round(hybrid(threshold=50), task)[0]
    new = fl.Message({"row": torch.linspace(-1, 1, task.layout.width)})
    rows = hybrid(threshold=50).weights_for(new, everyone)
    bodies = everyone.kept_rows("body", torch.zeros(4, 1))
    for client in (0, 2):
        assert same(rows[client], task.layout.put(new["row"], "body", bodies[client]))
    for client in (1, 3):
        assert same(rows[client], new["row"])


@pytest.mark.parametrize("hybrid", HYBRIDS)
def test_a_large_client_that_never_trained_predicts_with_the_global_model(hybrid):
    task = small_task()
    newcomers = cohort(task, "vectorised", LocalWork(**WORK))
    message = fl.Message({"row": torch.linspace(-1, 1, task.layout.width)})
    rows = hybrid(threshold=0).weights_for(message, newcomers)
    assert all(same(row, message["row"]) for row in rows)


# -- who is large


@given(threshold=st.integers(0, 120))
@settings(max_examples=30, deadline=None)
def test_a_client_is_large_when_it_holds_more_points_in_all_than_the_threshold(threshold):
    some = cohort(small_task(), "vectorised", LocalWork(**WORK))
    large = fl.FedHybridAvgLG(threshold=threshold).large(some, fl.Message())
    assert large.tolist() == [size > threshold for size in HELD]


def test_all_points_decide_who_is_large_and_training_points_how_much_it_counts(tmp_path):
    """Client 1 has 9 training points, and is the only large one."""
    held = federation(SIZES)
    uneven = Ragged.of([held.test[client][:places] for client, places in enumerate((2, 9, 3, 4))])
    valid = Ragged.of([torch.arange(70) if client == 1 else [] for client in range(4)])
    task = Task("t", replace(held, test=uneven, valid=valid), mlp())
    state = final(tmp_path / "run", fl.FedHybridAvgLG(threshold=60), task, rounds=1)
    assert state.client_states.has["body"].tolist() == [0, 1, 0, 0]
    everyone = cohort(task, "vectorised", LocalWork(**WORK))
    rows, shares = everyone.train(everyone.spread(task.initial_row())), torch.tensor(SIZES) / sum(SIZES)
    assert distance((shares[:, None] * rows).sum(0), state.server["row"]) < 1e-6


# -- what is refused


@pytest.mark.parametrize("threshold", [100, 2200])
@pytest.mark.parametrize("hybrid", HYBRIDS)
def test_a_threshold_that_no_client_exceeds_is_refused(hybrid, threshold):
    with pytest.raises(FedloomError, match=f"threshold={threshold}: the largest client has 100 samples.*fedavg"):
        fl.run(small_task(), hybrid(threshold=threshold), rounds=1)
    fl.run(small_task(), hybrid(threshold=99), rounds=1, local=WORK, eval_every=0)


@pytest.mark.parametrize("threshold", [-1, math.nan, "half"])
def test_a_threshold_that_is_no_number_of_points_is_refused(threshold):
    with pytest.raises(FedloomError, match=f"threshold={threshold!r}: it must be (at least 0|a number or 'auto')"):
        fl.FedHybridAvgLG(threshold=threshold)


def test_a_model_without_a_body_is_refused():
    task = Task("t", federation(SIZES), nn.Linear(20, 5))
    with pytest.raises(FedloomError, match="fedhybridavglg needs a model with a body and a head, but Linear has head"):
        fl.run(task, fl.FedHybridAvgLG(threshold=10), rounds=1)
