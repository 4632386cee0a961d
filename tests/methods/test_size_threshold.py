"""The threshold that is found: an exact scan, what is measured for it, and that nothing else stays of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import fedloom as fl
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.objective import SquaredError
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.methods.size_threshold import crossover
from fedloom.runs.folder.checkpoint import load_checkpoint
from fedloom.training.local_trainer import LocalTrainer
from support.checkpoints import final, same
from support.silent_clients import play_run, prepare_run
from support.synthetic import federation, mlp

WORK = {"epochs": 3, "batch_size": 16, "lr": 0.2}
SMALL, LARGE, POINTS = [*range(10, 42, 2)], [200, 240, 280], 60
CLIENTS = len(SMALL) + len(LARGE)
HELD = [size + 2 * POINTS for size in SMALL + LARGE]  # the test part is the validation part
AUTO = fl.FedHybridAvgLGDual(threshold="auto", probe_rounds=8)
QUICK = fl.FedHybridAvgLGDual(threshold="auto", probe_rounds=2)
SETTINGS = {"local": WORK, "weight_by": "uniform", "rounds": 2}


def small_and_large_clients() -> Task:
    """Small clients that obey one rule, and large ones of which each has renamed the classes in its own way."""
    generator = torch.Generator().manual_seed(11)
    sizes = [size + POINTS for size in SMALL + LARGE]
    x = torch.randn(sum(sizes), 20, generator=generator)
    y = (x @ torch.randn(20, 4, generator=generator)).argmax(1)
    parts = torch.arange(sum(sizes)).split(sizes)
    for shift, part in enumerate(parts[len(SMALL) :], 1):
        y[part] = (y[part] + shift) % 4
    train, valid = Ragged.of([part[POINTS:] for part in parts]), Ragged.of([part[:POINTS] for part in parts])
    return Task("planted", Federation({"x": x, "y": y}, train, valid, valid, 4), mlp(20, 16, 4))


PLANTED = small_and_large_clients()


# -- the scan


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8),
)
@settings(max_examples=200, deadline=None)
def test_no_threshold_serves_the_clients_better_than_the_one_found(clients):
    sizes, local, shared = (torch.tensor(column, dtype=torch.float32) for column in zip(*clients, strict=True))

    def total(threshold: float) -> float:
        return sum(own if size > threshold else common for size, own, common in clients)

    found = crossover(sizes, local, shared)
    best = max(total(threshold) for threshold in range(7))
    assert total(found) == best
    assert not any(total(size) == best for size, _, _ in clients if size > found)


def test_the_threshold_lies_where_local_overtakes_shared():
    sizes = torch.tensor([10.0, 50.0, 200.0, 900.0])
    assert crossover(sizes, torch.tensor([0.2, 0.4, 0.7, 0.9]), torch.tensor([0.6, 0.6, 0.6, 0.6])) == 50
    assert crossover(sizes, torch.tensor([0.7, 0.7, 0.7, 0.9]), torch.full((4,), 0.6)) == 0
    assert crossover(sizes, torch.tensor([0.2, 0.4, 0.5, 0.6]), torch.full((4,), 0.6)) == 900


def test_one_unlucky_client_does_not_move_the_threshold():
    sizes = torch.tensor([10.0, 50.0, 200.0, 900.0])
    assert crossover(sizes, torch.tensor([0.65, 0.3, 0.7, 0.9]), torch.full((4,), 0.6)) == 50


# -- what is measured


@pytest.mark.parametrize("execution", [pytest.param("loop", marks=pytest.mark.slow), "vectorised"])
@pytest.mark.slow
def test_the_threshold_separates_planted_small_and_large_clients(tmp_path, execution):
    state = final(tmp_path / "run", AUTO, PLANTED, execution=execution, **{**SETTINGS, "rounds": 1})
    curve = fl.curve_of(state.server)
    assert curve.threshold == HELD[len(SMALL) - 1]
    assert curve.sizes.tolist() == HELD
    assert (curve.local[-3:] > curve.shared[-3:]).all()
    assert (curve.local[:-3] < curve.shared[:-3]).all()
    assert state.client_states.has["body"].tolist() == [0] * len(SMALL) + [1] * len(LARGE)


def test_the_curve_is_what_one_round_of_each_kind_scores(tmp_path):
    method = fl.FedHybridAvgLG(threshold="auto", probe_rounds=1)
    curve = fl.curve_of(final(tmp_path / "run", method, PLANTED, **SETTINGS).server)
    setting, ids = RunSetting(LocalWork(**WORK), 3, 2), list(range(CLIENTS))
    first, second = (Cohort(ids, LocalTrainer(PLANTED, "vectorised"), setting, 0, turn=turn) for turn in (0, 1))
    shared = first.train(first.spread(PLANTED.initial_row())).mean(0)
    local = second.train(second.spread(PLANTED.initial_row()))
    for found, rows in ((curve.shared, second.spread(shared)), (curve.local, local)):
        assert torch.allclose(found, second.evaluate(rows, "valid").mean_score.float())


@pytest.mark.slow
def test_accuracies_are_means_over_the_last_five_rounds(tmp_path):
    """The curve of r rounds ends with round r; seven rounds forget their first two."""
    ids, rounds = list(range(CLIENTS)), 7
    method = fl.FedHybridAvgLG(threshold="auto", probe_rounds=rounds)
    curve = fl.curve_of(final(tmp_path / "run", method, PLANTED, **SETTINGS).server)
    alone = Cohort(ids, LocalTrainer(PLANTED, "vectorised"), RunSetting(LocalWork(**WORK), 3, 2), 0, turn=rounds)
    rows, seen = alone.spread(PLANTED.initial_row()), []
    for _ in range(rounds):
        rows = alone.train(rows)
        seen.append(alone.evaluate(rows, "valid").mean_score.float())
    assert torch.allclose(curve.local, torch.stack(seen[2:]).mean(0))
    assert not torch.allclose(curve.local, torch.stack(seen).mean(0))


def test_a_client_without_validation_points_has_no_say(tmp_path):
    held = PLANTED.federation
    valid = Ragged.of([held.valid[client] if client % 2 else [] for client in range(CLIENTS)])
    task = Task("t", replace(held, valid=valid), PLANTED.model)
    curve = fl.curve_of(final(tmp_path / "run", QUICK, task, **SETTINGS).server)
    assert curve.sizes.tolist() == HELD[1::2]


@pytest.mark.slow
def test_a_client_that_stops_answering_has_no_say(tmp_path):
    """Clients 3 and 7 fall silent, one before the first wave and one before the last."""
    run = prepare_run(PLANTED, QUICK, eval_every=0, **SETTINGS)
    silent = {0: [3], 2: [7]}
    play_run(run, lambda job: job.round == 0 and job.ids[0] in silent.get(job.turn, ()), tmp_path / "run")
    state = load_checkpoint(tmp_path / "run", CLIENTS)
    curve = fl.curve_of(state.server)
    there = [client for client in range(CLIENTS) if client not in (3, 7)]
    assert curve.sizes.tolist() == [HELD[client] for client in there]
    # what clients reach alone does not depend on who else answers
    whole = fl.curve_of(final(tmp_path / "whole", QUICK, PLANTED, **SETTINGS).server)
    assert torch.allclose(curve.local, whole.local[torch.tensor(there)], atol=1.5 / POINTS)  # a sample, for rounding


def test_clients_held_out_of_training_are_not_asked(tmp_path):
    state = final(tmp_path / "run", QUICK, PLANTED, new_clients=4, **SETTINGS)
    assert len(fl.curve_of(state.server).sizes) == CLIENTS - 4


# -- what stays


@pytest.mark.slow
@pytest.mark.parametrize("hybrid", [fl.FedHybridAvgLG, fl.FedHybridAvgLGDual])
def test_a_run_with_a_found_threshold_is_the_run_with_that_threshold(tmp_path, hybrid):
    found = final(tmp_path / "found", hybrid(threshold="auto", probe_rounds=2), PLANTED, **SETTINGS)
    threshold = fl.curve_of(found.server).threshold
    assert 0 < threshold < max(HELD)
    given = final(tmp_path / "given", hybrid(threshold=threshold), PLANTED, **SETTINGS)
    assert same(found.server["row"], given.server["row"])
    assert same(found.client_states.rows["body"], given.client_states.rows["body"])
    assert set(found.client_states.rows) == {"body"}


def test_probing_is_paid_for_before_the_first_round(tmp_path):
    history = fl.run(PLANTED, QUICK, out=tmp_path / "run", eval_every=0, seed=3, **SETTINGS)
    first, width = history.records[0], PLANTED.layout.width
    steps = sum(LocalWork(**WORK).steps_for(int(size)) for size in PLANTED.federation.train.sizes)
    assert first["round"] == 0
    assert first["steps"] == 2 * 2 * steps  # two rounds together and two alone
    assert first["bytes_up"] == CLIENTS * (2 * (4 * width + 4) + 16)
    assert first["bytes_down"] == CLIENTS * 3 * (4 * width + 8)


@pytest.mark.slow
def test_the_number_of_workers_does_not_change_what_is_found(tmp_path):
    one, two = (final(tmp_path / str(n), QUICK, PLANTED, workers=n, **SETTINGS).server for n in (1, 2))
    assert all(same(one[name], two[name]) for name in ("row", "threshold", "curve"))


@pytest.mark.slow
def test_a_resumed_run_keeps_its_threshold(tmp_path):
    whole = final(tmp_path / "whole", QUICK, PLANTED, **{**SETTINGS, "rounds": 4}).server

    def stop(record: dict) -> None:
        if record["round"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fl.run(
            PLANTED, QUICK, out=tmp_path / "cut", seed=3, eval_every=0, **{**SETTINGS, "rounds": 4}, observers=[stop]
        )
    fl.resume(tmp_path / "cut", task=PLANTED)
    resumed = load_checkpoint(tmp_path / "cut", CLIENTS)
    assert resumed is not None
    assert all(same(whole[name], resumed.server[name]) for name in ("row", "threshold", "curve"))


# -- what is refused


def test_without_validation_data_no_threshold_is_looked_for():
    with pytest.raises(FedloomError, match=r"no client has any: set task.valid_share"):
        fl.run(Task("t", federation([40, 50]), mlp()), AUTO, rounds=1)


def test_a_score_that_is_no_accuracy_is_refused():
    held = replace(PLANTED.federation, columns={**PLANTED.federation.columns, "y": torch.zeros(len(PLANTED.federation.columns["y"]), 1)})  # fmt: skip # noqa: E501
    task = Task("t", held, nn.Sequential(nn.Linear(20, 3), nn.Linear(3, 1)), objective=SquaredError())
    with pytest.raises(FedloomError, match="this task is scored by squared_error: give a number"):
        fl.run(task, AUTO, rounds=1)


def test_probing_takes_at_least_a_round():
    with pytest.raises(FedloomError, match="probe_rounds=0: it must be at least 1"):
        fl.FedHybridAvgLG(threshold="auto", probe_rounds=0)


def test_a_run_that_measured_no_curve_has_none(tmp_path):
    state = final(tmp_path / "run", fl.FedHybridAvgLG(threshold=50), PLANTED, **SETTINGS)
    with pytest.raises(FedloomError, match="this run has no size curve"):
        fl.curve_of(state.server)
