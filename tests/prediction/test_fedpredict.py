"""FedPredict: its weight for every round, its edge cases, runs computed by hand, and that it never touches training."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import fedloom as fl
from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.data.federation import Ragged
from fedloom.prediction.fedpredict import FedPredict, global_weight
from fedloom.runs.folder.checkpoint import load_checkpoint
from fedloom.training.local_trainer import LocalTrainer
from support.quadratic import quadratic
from support.synthetic import federation, mlp

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
SIZES = [33, 9, 50, 20, 14]
ERROR = "client_model/own_test/squared_error"


def small_task() -> Task:
    return Task("t", federation(SIZES), mlp())


def run(method, task: Task | None = None, **settings) -> fl.History:
    return fl.run(task or small_task(), method, **{"rounds": 4, "seed": 3, "local": WORK, **settings})


def one(number: float) -> torch.Tensor:
    return torch.tensor([number])


def weight(t: int, rounds: int, nt: int, trained: bool = True, similarity: float = 1.0) -> float:
    return float(global_weight(t, rounds, one(nt), torch.tensor([trained]), one(similarity)))


def visit(task: Task, number: int, kept: dict | None = None, rounds: int = 10, execution: str = "loop") -> Cohort:
    """All clients of a task in a round, with what they kept."""
    setting = RunSetting(LocalWork(**WORK), 3, rounds)
    return Cohort(list(range(task.federation.clients)), LocalTrainer(task, execution), setting, number, kept)


def state_after(task: Task, number: int, rows: torch.Tensor, stage: FedPredict = FedPredict()) -> dict:  # noqa: B008
    """What all clients keep when they end round ``number`` with some rows."""
    cohort = visit(task, number)
    cohort.after = rows
    stage.after_update(cohort)
    return cohort.kept


# -- the weight


@pytest.mark.parametrize("rounds", [1, 2, 7, 30])
def test_the_weight_is_the_papers_formula_in_every_round_and_at_every_age(rounds):
    for t in range(1, rounds + 1):
        for nt in range(1, t + 1):
            assert weight(t, rounds, nt) == pytest.approx(math.exp(-1 / nt - t / rounds), rel=1e-12)


@pytest.mark.parametrize(
    ("t", "rounds", "nt", "expected"),
    [(1, 100, 1, 0.364), (50, 100, 1, 0.223), (100, 100, 1, 0.135), (50, 100, 5, 0.497), (20, 100, 20, 0.779)],
)
def test_the_weights_that_follow_from_the_document(t, rounds, nt, expected):
    assert weight(t, rounds, nt) == pytest.approx(expected, abs=5e-4)


@given(st.integers(1, 200), st.integers(0, 199), st.integers(0, 199))
def test_the_weight_stays_between_its_bounds_and_grows_with_age(rounds, back, age):
    t = max(1, rounds - back)
    nt = min(age, t)
    assert weight(t, rounds, nt, trained=False) == 1.0
    if nt == 0:
        assert weight(t, rounds, 0) == 0.0
        return
    assert math.exp(-2) <= weight(t, rounds, nt) < 1
    assert weight(t, rounds, nt + 1) > weight(t, rounds, nt)


def test_a_dissimilar_client_leans_on_the_global_model():
    assert weight(5, 10, 2, similarity=0.7) == pytest.approx(math.exp((-1 / 2 - 5 / 10) * 0.7))
    assert weight(5, 10, 2, similarity=0.0) == 1.0
    assert weight(5, 10, 0, similarity=0.0) == 0.0  # who trained in this round has its present data in its model


# -- the mix


def test_who_never_trained_predicts_with_the_global_model_to_the_bit():
    task = small_task()
    cohort = visit(task, 7)
    rows = torch.randn(len(SIZES), task.layout.width)
    assert torch.equal(FedPredict().weights(rows, fl.Message(), cohort), rows)


def test_who_trained_in_this_round_predicts_with_its_own_model_to_the_bit():
    task = small_task()
    local = torch.randn(len(SIZES), task.layout.width)
    cohort = visit(task, 4, state_after(task, 4, local))
    assert torch.equal(FedPredict().weights(torch.randn_like(local), fl.Message(), cohort), local)


def test_clients_are_mixed_one_by_one():
    task = small_task()
    local, rows = torch.randn(2, len(SIZES), task.layout.width).unbind()
    state = state_after(task, 2, local)
    state["fedpredict/round"].rows[1] = 5  # client 1 trained in the round that is scored
    state["fedpredict/row"].has[2] = False  # client 2 never did
    mixed = FedPredict().weights(rows, fl.Message(), visit(task, 5, state))
    gw = math.exp(-1 / 3 - 5 / 10)
    for client in (0, 3, 4):
        assert torch.allclose(mixed[client], gw * rows[client] + (1 - gw) * local[client], atol=1e-6)
    assert torch.equal(mixed[1], local[1])
    assert torch.equal(mixed[2], rows[2])


def test_running_statistics_are_the_clients_own_and_not_mixed():
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 5))
    task = Task("t", federation(SIZES), model)
    local, rows = torch.randn(2, len(SIZES), task.layout.width).unbind()
    state = state_after(task, 2, local)
    state["fedpredict/row"].has[0] = False
    mixed = FedPredict().weights(rows, fl.Message(), visit(task, 5, state))
    trained = task.layout.trained_columns
    assert trained is not None
    assert torch.equal(mixed[0], rows[0])
    assert torch.equal(mixed[1:, ~trained], local[1:, ~trained])
    gw = math.exp(-1 / 3 - 5 / 10)
    assert torch.allclose(mixed[1:, trained], (gw * rows + (1 - gw) * local)[1:, trained], atol=1e-6)


# -- whole runs


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_run_by_hand(execution):
    """Every client's loss is (w - c)²/2, so a training moves w by lr (c - w), and the rest is the formula."""
    optima, rounds, lr = [4.0, -2.0, 1.0, 7.0], 6, 0.4
    history = run(
        "fedavg+fedpredict", quadratic(optima), rounds=rounds, local={"epochs": 1, "lr": lr},
        selection={"number": 2}, execution=execution,
    )  # fmt: skip
    w, local, last = 0.0, dict.fromkeys(range(4), 0.0), dict.fromkeys(range(4), 0)
    ages = Counter()
    for record in history.records[1:]:
        t, chosen = record["round"], record["selected"]
        for k in chosen:
            local[k], last[k] = w + lr * (optima[k] - w), t
        w = sum(local[k] for k in chosen) / len(chosen)
        errors = []
        for k, c in enumerate(optima):
            nt = t - last[k]
            ages[nt if last[k] else "never"] += 1
            gw = 1.0 if last[k] == 0 else 0.0 if nt == 0 else math.exp(-1 / nt - t / rounds)
            errors.append((gw * w + (1 - gw) * local[k] - c) ** 2)
        assert record["metrics"][f"{ERROR}/mean"] == pytest.approx(sum(errors) / 4, rel=1e-5)
    assert ages["never"] > 0  # all three cases occurred
    assert ages[0] > 0
    assert sum(ages[age] for age in (1, 2, 3, 4)) > 0


METHODS = ["fedavg", "fedprox", "fedyogi", "scaffold", "feddyn", "fedrep", "lgfedavg", "fedbabu"]


@pytest.mark.parametrize("stages", ["fedpredict", "fedpredict:dynamic=true+finetune"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow
def test_training_is_the_same_bytes_with_and_without_the_plugin(tmp_path, method, stages):
    settings = {"rounds": 3, "selection": {"number": 3}, "new_clients": 1}
    bare = run(method, out=tmp_path / "bare", **settings)
    with_it = run(f"{method}+{stages}", out=tmp_path / "with", **settings)
    file = "checkpoints/round-000003.safetensors"
    assert (tmp_path / "bare" / file).read_bytes() == (tmp_path / "with" / file).read_bytes()
    for one, other in zip(bare.records, with_it.records, strict=True):
        alike = {name: value for name, value in one["metrics"].items() if not name.startswith("client_model")}
        assert alike.items() <= other["metrics"].items()
        assert {k: v for k, v in one.items() if k != "metrics"} == {k: v for k, v in other.items() if k != "metrics"}
    assert bare.clients != with_it.clients


def test_what_is_kept_is_the_trained_row_and_its_round_and_never_the_mix(tmp_path):
    settings = {"selection": {"number": 2}}
    history = run("fedavg+fedpredict", out=tmp_path / "run", **settings)
    last = {client: record["round"] for record in history.records for client in record["selected"]}
    state = load_checkpoint(tmp_path / "run", len(SIZES))
    assert state is not None
    assert state.client_states.has["fedpredict/row"].nonzero().flatten().tolist() == sorted(last)
    assert {client: int(state.client_states.rows["fedpredict/round"][client]) for client in last} == last
    chosen = torch.tensor(history.records[-1]["selected"])
    sizes = torch.tensor(SIZES)[chosen]
    mean = (sizes / sizes.sum()) @ state.client_states.rows["fedpredict/row"][chosen]  # fedavg's new model
    assert torch.allclose(mean, state.server["row"], atol=1e-6)
    seldom = run("fedavg+fedpredict", eval_every=4, **settings)
    assert seldom.clients == history.clients  # how often clients predicted before changes nothing


def test_new_clients_predict_with_the_global_model():
    bare, history = run("fedavg", new_clients=2), run("fedavg+fedpredict", new_clients=2)
    name = "client_model/own_test"
    for one, other in zip(bare.records, history.records, strict=True):
        assert one["metrics"][f"{name}/accuracy/new"] == other["metrics"][f"{name}/accuracy/new"]
        assert one["metrics"][f"{name}/loss/new"] == pytest.approx(other["metrics"][f"{name}/loss/new"], rel=1e-6)
    last = f"{name}/loss/mean"
    assert bare.last(last) != pytest.approx(history.last(last), rel=1e-3)


@dataclass(frozen=True)
class Rehearsed(fl.FedAvg):
    """FedAvg that trains everybody before the first round."""

    def prelude(self, server: State, context: fl.ServerContext) -> Round:
        replies = yield fl.Wave(context.clients, fl.Message({"row": server["row"]}))
        return {"row": replies.mean("row")}


def test_what_is_trained_before_the_first_round_is_not_a_clients_last_model():
    bare, history = run(Rehearsed(), rounds=1), run(Rehearsed(), rounds=1, prediction=[FedPredict()])
    name = "client_model/own_test/loss/mean"
    assert bare.records[0]["steps"] > 0
    assert bare.records[0]["metrics"][name] == pytest.approx(history.records[0]["metrics"][name], rel=1e-6)


class Stop(Exception):  # noqa: N818
    """What ends a run in the middle."""


def stop_after(number: int):
    """An observer that stops a run when it has measured a round, before its checkpoint."""

    def observe(record):
        if record["round"] == number:
            raise Stop

    return observe


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["fedavg+fedpredict", "fedrep+fedpredict:dynamic=true"])
def test_workers_and_a_stop_change_no_byte(tmp_path, spec):
    settings = {"rounds": 5, "selection": {"number": 2}, "new_clients": 1}
    run(spec, out=tmp_path / "one", **settings)
    run(spec, out=tmp_path / "two", workers=2, **settings)
    with pytest.raises(Stop):
        run(spec, out=tmp_path / "stopped", observers=[stop_after(4)], **settings)
    fl.resume(tmp_path / "stopped", task=small_task())
    for folder in ("two", "stopped"):
        for file in ("metrics.jsonl", "clients.json", "checkpoints/round-000005.safetensors"):
            assert (tmp_path / "one" / file).read_bytes() == (tmp_path / folder / file).read_bytes(), (folder, file)


# -- the dynamic form


def with_labels(labels: list[list[int]]) -> Task:
    """Clients with these labels."""
    task = Task("t", federation([len(own) for own in labels], classes=4), mlp(classes=4))
    task.federation.columns["y"][:] = torch.tensor([label for own in labels for label in own])
    return task


@pytest.mark.parametrize(
    ("before", "now", "similarity"),
    [
        ([0, 0, 1], [0, 0, 1], 1.0),
        ([0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1], 1.0),  # 24/25 = 0.96
        ([0, 0], [0, 1], 0.7),  # 1/sqrt(2)
        ([0, 0, 1], [1, 2, 2], 0.2),  # 1/5
        ([0, 1], [2, 3], 0.0),
    ],
)
def test_similarity_is_the_cosine_of_class_shares_to_one_decimal(before, now, similarity):
    stage = FedPredict(dynamic=True)
    one, other = with_labels([before]), with_labels([now])
    local, rows = torch.randn(2, 1, one.layout.width).unbind()
    state = state_after(one, 2, local, stage)
    cohort = visit(other, 5, state)
    assert float(stage.similarity(cohort)) == pytest.approx(similarity, abs=1e-12)
    gw = math.exp((-1 / 3 - 5 / 10) * similarity)
    mixed = stage.weights(rows, fl.Message(), cohort)
    assert torch.allclose(mixed, gw * rows + (1 - gw) * local, atol=1e-6)
    if similarity == 0:
        assert torch.equal(mixed, rows)


def test_without_drift_the_dynamic_form_is_fedpredict():
    settings = {"selection": {"number": 2}}
    assert run("fedavg+fedpredict:dynamic=true", **settings).records == run("fedavg+fedpredict", **settings).records


def test_after_a_drift_the_dynamic_form_trusts_stale_models_less():
    """Client 0 and 1 swap disjoint classes in the round in which nobody is trained any more."""
    task = with_labels([[0, 1] * 5, [2, 3] * 5])
    parts = [task.federation.train[1], task.federation.train[0]]
    swapped = replace(task.federation, train=Ragged.of(parts), test=Ragged.of(parts))
    task = replace(task, federation=replace(task.federation, later=((3, swapped),)))
    settings = {"rounds": 3, "selection": {"number": 1}}
    bare, plain = run("fedavg", task, **settings), run("fedavg+fedpredict", task, **settings)
    dynamic = run("fedavg+fedpredict:dynamic=true", task, **settings)
    chosen = bare.records[-1]["selected"]
    name = "client_model/own_test/loss/mean"
    assert dynamic.records[2]["metrics"][name] == plain.records[2]["metrics"][name]
    for one, two, three in zip(bare.clients, plain.clients, dynamic.clients, strict=True):
        if one["client"] in chosen:
            assert three["loss"] == two["loss"]
        else:  # its classes are others altogether: s = 0
            assert three["loss"] == pytest.approx(one["loss"], rel=1e-6)
            assert two["loss"] != pytest.approx(one["loss"], rel=1e-3)


# -- refusals


@dataclass(frozen=True)
class Mine(fl.FedAvg):
    """A method that says of itself that clients' models are their own."""

    breaks: ClassVar[Facts] = {Fact.SHARED_PREDICTION: "gives every client an entirely personal model"}


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("local", "fedpredict mixes .*, and local gives every client an entirely personal model"),
        (Mine(), "fedpredict mixes .*, and mine gives every client an entirely personal model"),
        ("centralised", "fedpredict mixes .* a client trained last, and centralised has all data in one place"),
        ("fedsgd", "fedpredict mixes .* a client trained last, and fedsgd lets clients send a gradient, and train no"),
    ],
)
def test_methods_that_it_means_nothing_for_are_refused_in_one_sentence(method, reason):
    with pytest.raises(FedloomError, match=reason) as caught:
        run(method, prediction=["fedpredict"])
    assert "\n" not in str(caught.value)
    assert "drop fedpredict" in str(caught.value)


def test_the_dynamic_form_needs_classes():
    with pytest.raises(FedloomError, match="task quadratic has no classes"):
        run("fedavg+fedpredict:dynamic=true", quadratic([1.0, 2.0]))
    run("fedavg+fedpredict", quadratic([1.0, 2.0]), rounds=1)
