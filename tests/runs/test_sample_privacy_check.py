"""Runs with DP-SGD: what they record, when they stop, and which are refused before any training."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.task import Task
from fedloom.privacy.client_ledger import SampleLedger
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import Branching, federation, mlp

pytest.importorskip("dp_accounting", reason="needs dp-accounting")

PRIVACY = {"noise": 1.0, "clip": 1.0}
SIZES = [40, 25, 12]


@pytest.fixture(scope="module")
def task():
    return Task("t", federation(SIZES), mlp())


def run(task, method="fedavg", **settings):
    given = {"rounds": 2, "sample_privacy": PRIVACY, "eval_every": 0, "local": {"batch_size": 5}, **settings}
    return fl.run(task, method, **given)


def spent(history) -> list[float]:
    return [record["metrics"]["privacy/sample_epsilon"] for record in history.records if record["round"]]


def test_every_record_has_the_largest_epsilon_of_any_client(task):
    ledger, history = SampleLedger(1.0, 1e-5, batch_size=5), run(task)
    per_round = [8, 5, 3]  # batches of five
    assert spent(history) == [
        max(ledger.epsilon(size, rounds * steps) for size, steps in zip(SIZES, per_round, strict=True))
        for rounds in (1, 2)
    ]


def test_only_rounds_in_which_a_client_took_part_count(task):
    history = run(task, rounds=4, selection={"name": "random", "number": 1})
    steps = dict.fromkeys(range(3), 0)
    for record in history.records:
        for client in record["selected"]:
            steps[client] += [8, 5, 3][client]
    ledger = SampleLedger(1.0, 1e-5, batch_size=5)
    assert spent(history)[-1] == ledger.spent(SIZES, list(steps.values()))


@pytest.mark.parametrize("method", ["fedprox", "scaffold", "fedrep", "ditto", "feddyn", "fedseq", "centralised"])
def test_methods_that_only_train_run_and_all_their_trainings_count(task, method):
    history = run(task, method)
    assert history.stopped is None
    assert spent(history)[1] > spent(history)[0] > 0
    if method in ("fedrep", "ditto"):
        assert spent(history)[0] == spent(run(task, rounds=2))[1]  # two trainings in a round


@pytest.mark.parametrize("make", [mlp, Branching])
def test_a_sample_whose_gradient_is_not_finite_does_not_exclude_its_client(make):
    data = federation(SIZES)
    data.columns["x"][SIZES[0]] = 1e38  # a sample of client 1
    history = run(Task("t", data, make()), local={"batch_size": 0})  # that every step has
    assert not any("excluded" in record for record in history.records)
    assert bool(history.row.isfinite().all())


def test_clients_without_budget_stay_away_and_then_the_run_stops(task):
    ledger = SampleLedger(1.0, 1e-5, batch_size=5)
    small = {**PRIVACY, "epsilon": ledger.epsilon(12, 2 * 3)}  # two rounds of the smallest client
    with pytest.warns(fl.StoppedWarning, match="privacy budgets of 2 of 3 clients"):
        history = run(task, rounds=9, sample_privacy=small)
    assert max(spent(history)) <= small["epsilon"]
    left_out = {client["client"] for record in history.records for client in record.get("excluded", ())}
    assert left_out == {2}


def test_a_seeded_run_gives_the_same_bytes_with_workers_and_after_a_stop(tmp_path, task, caplog):
    settings = {"sample_privacy": {**PRIVACY, "seeded": True, "epsilon": 30.0}, "rounds": 3, "eval_every": 1}
    run(task, out=tmp_path / "one", **settings)
    assert "for study only" in caplog.text
    run(task, out=tmp_path / "two", workers=2, execution="loop", **settings)
    with pytest.raises(RuntimeError):
        run(task, out=tmp_path / "stopped", observers=[_stop_after_one], **settings)
    fl.resume(tmp_path / "stopped", task=task)
    one = (tmp_path / "one" / "metrics.jsonl").read_bytes()
    assert (tmp_path / "stopped" / "metrics.jsonl").read_bytes() == one
    states = [next((tmp_path / name / "checkpoints").glob("round-*")) for name in ("one", "stopped")]
    assert states[0].read_bytes() == states[1].read_bytes()


def _stop_after_one(record):
    if record["round"] == 1:
        raise RuntimeError


@dataclass(frozen=True)
class Peeks(fl.FedAvg):
    """Sends a loss beside its model, and inherits FedAvg's promise to send nothing but what was trained."""

    def client_update(self, cohort, message):
        reply = super().client_update(cohort, message)
        loss = cohort.evaluate(cohort.spread(message["row"]), "train").mean_loss
        return fl.Reply({**reply.tensors, "loss": loss.float()[:, None]})


class LosesItsBatch(nn.Module):
    """A model that vmap cannot take: it asks for a value of its input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(20, 5)

    def forward(self, x):
        return self.layer(x) * (1.0 if float(x.sum()) > 0 else 2.0)


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        ("moon", {}, "another way than by training"),
        ("fedsgd", {}, "another way than by training"),
        ("perfedavg", {}, "another way than by training"),
        ("ifca", {}, "another way than by training"),
        ("fedproto", {}, "another way than by training"),
        ("fedprox:adaptive=true", {}, "another way than by training"),
        ("scaffold:option=1", {}, "another way than by training"),
        (Peeks(), {}, "another way than by training"),
        ("fedavg", {"selection": "powerofchoice"}, "looks at what clients have"),
        ("fedavg", {"execution": "compiled"}, "use execution vectorised"),
        ("fedavg", {"sample_privacy": {**PRIVACY, "epsilon": 0.1}}, "the first round alone spends"),
        ("fedavg", {"sample_privacy": {**PRIVACY, "noise": 0.0}}, "noise=0.0 .*: it must be at least 1e-12"),
        ("fedavg", {"sample_privacy": {**PRIVACY, "noise": 1e-6}}, "protects nobody"),
    ],
)
def test_what_would_not_protect_samples_is_refused_before_any_training(task, monkeypatch, method, settings, said):
    monkeypatch.setattr(LocalTrainer, "train", lambda *_: pytest.fail("it trained"))
    with pytest.raises(fl.FedloomError, match=said):
        run(task, method, **settings)


class HasGraphs(nn.Linear):
    """A model that says that its samples cannot be stacked."""

    unequal = "graphs of different sizes"


def changed(task: Task, **parts) -> Task:
    return Task("t", parts.pop("federation", task.federation), parts.pop("model", task.model), **parts)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"model": nn.Sequential(nn.Linear(20, 5), nn.BatchNorm1d(5))}, "use GroupNorm"),
        ({"model": HasGraphs(20, 5)}, "a task with independent samples"),
        ({"model": LosesItsBatch()}, "vmap, which cannot take this model"),
        ({"augment": lambda x, generator: x + torch.rand(x.shape, generator=generator)}, "task.augment"),
    ],
)
def test_tasks_whose_samples_have_no_gradient_of_their_own_are_refused(task, parts, said):
    with pytest.raises(fl.FedloomError, match=said):
        run(changed(task, **parts), execution="loop")
