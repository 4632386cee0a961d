"""The round loop: what is measured under which name, on whom, and what a round costs."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.data.federation import Ragged
from support.synthetic import cohort, federation, mlp, train_all

SIZES = [33, 9, 50, 20, 14, 28]
WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}


def small_task() -> Task:
    return Task("t", federation(SIZES), mlp())


def run(method="fedavg", task: Task | None = None, **settings) -> fl.History:
    return fl.run(task or small_task(), method, **{"rounds": 4, "seed": 3, "local": WORK, **settings})


def test_the_names_of_metrics_say_which_model_was_scored_on_whose_data():
    names = run(rounds=1).records[-1]["metrics"]
    assert {tuple(name.split("/")[:3]) for name in names} == {
        (model, "own_test", what)
        for model in ("client_model", "received_model", "trained_model")
        for what in ("accuracy", "loss")
    } | {("global_model", "global_test", what) for what in ("accuracy", "loss")}
    assert {name.split("/")[3] for name in names if name.startswith("client_model/own_test/accuracy")} == {
        "mean", "std", "weighted", "worst_decile", "small", "intermediate", "big", "per_selected",
    }  # fmt: skip


def test_what_is_measured_before_and_after_local_training_is_what_bare_scoring_gives():
    task = small_task()
    metrics = run(task=task, rounds=1).records[-1]["metrics"]
    some, start = cohort(task, "vectorised", LocalWork(**WORK)), task.initial_row()
    before = some.evaluate(some.spread(start)).mean_loss
    after = some.evaluate(train_all(task, "vectorised", LocalWork(**WORK))).mean_loss
    assert metrics["received_model/own_test/loss/mean"] == pytest.approx(float(before.mean()), rel=1e-6)
    assert metrics["trained_model/own_test/loss/mean"] == pytest.approx(float(after.mean()), rel=1e-6)
    shares = torch.tensor(SIZES) / sum(SIZES)
    assert metrics["trained_model/own_test/loss/weighted"] == pytest.approx(float(shares.double() @ after), rel=1e-6)


def test_the_received_model_of_a_round_is_the_clients_model_of_the_round_before():
    records = run(rounds=3).records
    for earlier, later in itertools.pairwise(records[1:]):
        for what in ("accuracy", "loss"):
            name = f"own_test/{what}/mean"
            assert later["metrics"][f"received_model/{name}"] == pytest.approx(
                earlier["metrics"][f"client_model/{name}"]
            )


def test_scored_on_everybodys_samples_global_and_weighted_client_scores_agree():
    """In this federation the global test set is the union of the clients' test parts."""
    metrics = run(rounds=2).records[-1]["metrics"]
    for what in ("accuracy", "loss"):
        shared, own = f"global_model/global_test/{what}", f"client_model/own_test/{what}/weighted"
        assert metrics[shared] == pytest.approx(metrics[own], rel=1e-6)


def test_every_other_round_is_scored_and_the_last_one_always():
    history = run(rounds=5, eval_every=2)
    assert [record["round"] for record in history.records if record["metrics"]] == [0, 2, 4, 5]


def test_eval_every_zero_measures_nothing():
    history = run(eval_every=0)
    assert [record["metrics"] for record in history.records] == [{}] * 4
    assert history.clients == []


def test_how_often_is_scored_changes_no_training():
    often, seldom = run(eval_every=1), run(eval_every=4)
    assert often.records[-1] == seldom.records[-1]


def test_the_scored_subset_is_the_same_in_every_round_and_for_every_method():
    some = run(eval_clients=3)
    scored = [client["client"] for client in some.clients]
    assert scored == sorted(set(scored))
    assert len(scored) == 3
    whole = {client["client"]: client["loss"] for client in run().clients}
    for client in some.clients:
        assert client["loss"] == pytest.approx(whole[client["client"]], rel=1e-6)
    assert [client["client"] for client in run("fedprox", rounds=1, eval_clients=3).clients] == scored
    others = {tuple(c["client"] for c in run(rounds=1, seed=seed, eval_clients=3).clients) for seed in range(5)}
    assert len(others) > 1
    assert len(run(rounds=1, eval_clients=60).clients) == 6


@pytest.mark.parametrize("number", [1, 4, 6])
def test_a_round_of_fedavg_sends_a_row_to_each_client_and_one_back(number):
    task = small_task()
    for record in run(task=task, selection={"number": number}, eval_every=0).records:
        assert len(record["selected"]) == number
        assert record["bytes_down"] == record["bytes_up"] == number * task.layout.width * 4


def test_an_adaptive_mu_and_a_loss_cost_four_bytes_more_each():
    task = small_task()
    record = run(fl.FedProx(adaptive=True), task, rounds=1, eval_every=0).records[-1]
    assert record["bytes_down"] == record["bytes_up"] == 6 * (task.layout.width + 1) * 4


def test_steps_are_counted_over_the_selected_clients():
    record = run(rounds=1, eval_every=0).records[-1]
    assert record["steps"] == 3 + 1 + 4 + 2 + 1 + 2  # batches of at most 16


def test_the_first_record_is_of_the_untrained_model_and_free():
    first = run().records[0]
    assert first | {"metrics": {}} == {
        "round": 0, "selected": [], "bytes_down": 0, "bytes_up": 0, "bytes_between": 0, "steps": 0,
        "metrics": {},
    }  # fmt: skip
    losses = [record["metrics"]["global_model/global_test/loss"] for record in run().records]
    assert losses[-1] < losses[0]


# -- clients held out of training


NEW = "client_model/own_test/accuracy/new"


def new_clients(history: fl.History) -> list[int]:
    return [row["client"] for row in history.clients if row["group"] == "new"]


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedrep", "local"])
@pytest.mark.parametrize("selection", [{}, {"number": 2}])
def test_new_clients_are_never_selected(method, selection):
    history = run(method, new_clients=2, selection=selection, rounds=6)
    new = new_clients(history)
    assert len(new) == 2
    chosen = [set(record["selected"]) for record in history.records[1:]]
    assert not set().union(*chosen) & set(new)
    assert {len(some) for some in chosen} == {selection.get("number", 4)}


def test_who_is_held_out_is_drawn_by_the_seed_and_the_same_for_every_method():
    assert new_clients(run(rounds=1, new_clients=2)) == new_clients(run("fedprox", rounds=1, new_clients=2))
    assert len({tuple(new_clients(run(rounds=1, new_clients=2, seed=seed))) for seed in range(6)}) > 1


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_the_accuracy_of_new_clients_is_that_of_the_global_model_on_their_own_tests(execution):
    task = small_task()
    history = run(task=task, new_clients=2, execution=execution)
    model, held = history.model(task), task.federation
    right = []
    for client in new_clients(history):
        positions = held.test[client]
        said = model(held.columns["x"][positions]).argmax(1)
        right.append(float((said == held.columns["y"][positions]).double().mean()))
    assert history.last(NEW) == pytest.approx(sum(right) / 2)
    others = [row["accuracy"] for row in history.clients if row["group"] != "new"]
    assert history.last("client_model/own_test/accuracy/mean") == pytest.approx(sum(others) / 4)


def test_training_with_new_clients_is_training_without_them():
    """The data of who is held out have no say: other data there change nothing but their own score."""
    task = small_task()
    new = new_clients(run(rounds=1, new_clients=2))
    for method in ("fedavg", "centralised"):
        other = small_task()
        for client in new:
            other.federation.columns["y"][other.federation.train[client]] = 0
        one, two = run(method, task, new_clients=2), run(method, other, new_clients=2)
        assert one.row is not None
        assert torch.equal(one.row, two.row)
        assert not torch.equal(one.row, run(method, task).row)


def test_the_pooled_data_are_those_of_who_trains():
    task = small_task()
    whole = {"local": {"epochs": 1, "batch_size": 0, "lr": 0.1}, "rounds": 1}
    history = run("centralised", task, new_clients=2, **whole)
    new = new_clients(history)
    pool = torch.cat([task.federation.train[k] for k in range(len(SIZES)) if k not in new])
    alone = replace(task.federation, train=Ragged.of([pool]), test=Ragged.of([pool]), valid=Ragged.empty(1))
    expected = run(task=replace(task, federation=alone), **whole).row
    assert torch.allclose(history.row, expected, atol=1e-6)


def test_somebody_must_be_left_to_train():
    with pytest.raises(FedloomError, match="leave at least one to train"):
        run(new_clients=6)
    with pytest.raises(FedloomError, match=r"new_clients=-1 .*: it must be at least 0"):
        run(new_clients=-1)
    assert len(run(new_clients=5, rounds=1).records[-1]["selected"]) == 1


def test_efficiency_counts_who_was_selected_and_is_not_of_what_is_not_federated():
    name = "client_model/own_test/accuracy"
    for record in run(selection={"number": 2}).records[1:]:
        metrics = record["metrics"]
        assert metrics[f"{name}/per_selected"] == pytest.approx(metrics[f"{name}/mean"] / 2)
    assert run("centralised").last(f"{name}/per_selected") is None
