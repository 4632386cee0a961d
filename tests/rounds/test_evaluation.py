"""Metrics of a run: what scikit-learn says of the same predictions in one place, however the work was divided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.core.objective import CrossEntropy
from fedloom.data.federation import Ragged
from fedloom.rounds.evaluation import _clients_at_once
from fedloom.runs.folder.metrics_file import compact_json
from fedloom.runs.prepare import prepare
from fedloom.runs.results.client_model import client_model

METRICS = ["macro_f1", "auc", "accuracy"]
OWN, VALIDATION = "client_model/own_test", "client_model/own_validation"


@cache
def task(metrics: tuple[str, ...] = tuple(METRICS), clients: int = 5) -> fl.Task:
    return fl.task("digits", clients=clients, alpha=0.3, seed=2, metrics=metrics)


def outputs_of(row, positions, over=None):
    over = over or task()
    model = fl.History({"method": {"name": "x"}}, row=row).model(over)
    with torch.no_grad():
        return model(over.inputs(positions)), over.targets(positions)


def at_once(outputs, targets) -> dict[str, float]:
    """Scikit-learn's metrics of all predictions together."""
    chances = outputs.double().softmax(1)
    return {
        "macro_f1": f1_score(targets, outputs.argmax(1), average="macro"),
        "auc": roc_auc_score(targets, chances, multi_class="ovr", average="macro"),
        "accuracy": accuracy_score(targets, outputs.argmax(1)),
    }


def pooled_metrics(history: fl.History) -> dict[str, float]:
    return {name: history.last(f"{OWN}/{name}/pooled") for name in METRICS}


def test_a_shared_models_metrics_are_scikit_learns_of_all_clients_samples_at_once():
    history, federation = fl.run(task(), rounds=3), task().federation
    own = at_once(*outputs_of(history.row, federation.test.order))
    shared = at_once(*outputs_of(history.row, federation.global_test))
    for name in METRICS:
        far = 1e-3 if name == "auc" else 1e-12
        assert history.last(f"{OWN}/{name}/pooled") == pytest.approx(own[name], abs=far)
        assert history.last(f"global_model/global_test/{name}") == pytest.approx(shared[name], abs=far)


@pytest.mark.parametrize("method", ["local", "fedper", "fedavg+finetune"])
def test_personal_models_metrics_are_scikit_learns_of_all_clients_predictions_at_once(method, tmp_path):
    history, federation = fl.run(task(), method, rounds=2, out=tmp_path / "run"), task().federation
    parts = [
        outputs_of(client_model(tmp_path / "run", str(client)).row, federation.test[client]) for client in range(5)
    ]
    expected = at_once(*(torch.cat(column) for column in zip(*parts, strict=True)))
    assert pooled_metrics(history) == pytest.approx(expected, abs=1e-3)
    assert history.last(f"{OWN}/macro_f1/pooled") == pytest.approx(expected["macro_f1"], abs=1e-9)
    for (outputs, targets), row in zip(parts, history.clients, strict=True):
        assert row["macro_f1"] == pytest.approx(f1_score(targets, outputs.argmax(1), average="macro"))


@pytest.mark.parametrize("method", ["fedavg", "fedper"])
def test_executions_and_workers_agree(method):
    settings = [{"execution": "loop"}, {"execution": "vectorised"}, {"execution": "vectorised", "workers": 2}]
    loop, vectorised, workers = (fl.run(task(), method, rounds=2, **one) for one in settings)
    assert compact_json(workers.records[-1]["metrics"]) == compact_json(vectorised.records[-1]["metrics"])
    assert compact_json(workers.clients) == compact_json(vectorised.clients)
    assert loop.records[-1]["metrics"] == pytest.approx(vectorised.records[-1]["metrics"], abs=2e-3)


@pytest.mark.parametrize("method", ["fedavg", "ditto"])
def test_asking_for_metrics_changes_nothing_else(method):
    with_metrics, without = (fl.run(task(metrics), method, rounds=2) for metrics in (("macro_f1", "auc"), ()))
    for one, other in zip(with_metrics.records, without.records, strict=True):
        assert other["metrics"].items() <= one["metrics"].items()
    assert all(other.items() <= one.items() for one, other in zip(with_metrics.clients, without.clients, strict=True))
    if with_metrics.row is not None:
        assert torch.equal(with_metrics.row, without.row)


def test_accuracy_as_a_metric_is_the_objectives_own():
    as_metric, own = (fl.run(task(metrics), rounds=2) for metrics in (("accuracy",), ()))
    for name, value in own.records[-1]["metrics"].items():
        assert as_metric.records[-1]["metrics"][name] == pytest.approx(value, abs=1e-6), name


class MeanF1(CrossEntropy):
    """What one could do before: the F1 of each sample, of which a mean is taken. It is 1 for one of ten classes."""

    score = "f1"

    def scores(self, outputs, targets):
        right, counts = super().scores(outputs, targets)
        return right / outputs.shape[1], counts


def test_f1_as_a_mean_over_samples_was_wrong_and_as_a_metric_is_right():
    federation = task().federation
    made = fl.task_of(federation, "mlp", objective=MeanF1(), metrics=["macro_f1"])
    history = fl.run(made, rounds=3, execution="loop", local={"lr": 0.1, "epochs": 2})
    outputs, targets = outputs_of(history.row, federation.global_test, made)
    true = f1_score(targets, outputs.argmax(1), average="macro")
    assert true > 0.4
    assert history.last("global_model/global_test/f1") < 0.15
    assert history.last("global_model/global_test/macro_f1") == pytest.approx(true, abs=1e-12)


def test_a_client_whose_metric_is_undefined_does_not_count_in_means():
    x, owner = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)), np.repeat([0, 1, 2], 100)
    y = (x[:, 0] > 0).long().numpy()
    y[owner == 2] = 1
    made = fl.task_of(fl.from_arrays(x.numpy(), y, owner), "mlp", metrics=["auc"])
    history = fl.run(made, rounds=1)
    values = [row["auc"] for row in history.clients]
    assert values[2] is None
    assert history.last(f"{OWN}/auc/mean") == pytest.approx(np.mean(values[:2]))
    assert history.last(f"{OWN}/auc/pooled") is not None


def test_clients_without_test_samples_have_no_metrics():
    x, y = np.random.default_rng(0).standard_normal((60, 4)), np.arange(60) % 3
    federation = fl.from_arrays(x, y, np.repeat([0, 1, 2], 20), test_share=0.0)
    history = fl.run(fl.task_of(federation, "mlp", metrics=["macro_f1"]), rounds=1)
    assert [row["macro_f1"] for row in history.clients] == [None] * 3
    assert history.last(f"{OWN}/macro_f1/pooled") is None


def test_new_clients_do_not_count_in_what_is_pooled():
    history = fl.run(task(), rounds=2, new_clients=2)
    trained = [row["client"] for row in history.clients if row["group"] != "new"]
    positions = torch.cat([task().federation.test[client] for client in trained])
    assert len(trained) == 3
    expected = at_once(*outputs_of(history.row, positions))
    assert history.last(f"{OWN}/macro_f1/pooled") == pytest.approx(expected["macro_f1"], abs=1e-12)
    assert history.last(f"{OWN}/macro_f1/new") is not None


@cache
def validated(clients: int = 5) -> fl.Task:
    return fl.task("digits", clients=clients, alpha=0.3, seed=2, metrics=tuple(METRICS), valid_share=0.3)


@pytest.mark.parametrize("method", ["fedavg", "fedper"])
def test_what_clients_predict_with_is_measured_on_their_validation_parts_too(method, tmp_path):
    history, federation = fl.run(validated(), method, rounds=2, out=tmp_path / "run"), validated().federation
    rows = [client_model(tmp_path / "run", str(client)).row for client in range(5)]
    parts = [outputs_of(row, federation.valid[client], validated()) for client, row in enumerate(rows)]
    own = [accuracy_score(targets, outputs.argmax(1)) for outputs, targets in parts]
    losses = [float(torch.nn.functional.cross_entropy(*part)) for part in parts]
    assert history.last(f"{VALIDATION}/accuracy/mean") == pytest.approx(np.mean(own), abs=1e-12)
    assert history.last(f"{VALIDATION}/accuracy/std") == pytest.approx(np.std(own), abs=1e-12)
    assert history.last(f"{VALIDATION}/loss/mean") == pytest.approx(np.mean(losses), abs=1e-5)
    assert [row["validation_accuracy"] for row in history.clients] == pytest.approx(own, abs=1e-12)
    assert [row["validation_loss"] for row in history.clients] == pytest.approx(losses, abs=1e-5)
    expected = at_once(*(torch.cat(column) for column in zip(*parts, strict=True)))
    found = {name: history.last(f"{VALIDATION}/{name}/pooled") for name in METRICS}
    assert found == pytest.approx(expected, abs=1e-3)
    assert len([record for record in history.records if f"{VALIDATION}/auc/mean" in record["metrics"]]) == 3
    lowest = min(row["validation_macro_f1"] for row in history.clients)
    assert history.last(f"{VALIDATION}/macro_f1/worst_decile") == pytest.approx(lowest)


def test_no_test_label_takes_part_in_what_is_measured_on_validation_parts():
    federation = validated().federation
    labels = federation.columns["y"].clone()
    for positions in (federation.test.order, federation.global_test):
        labels[positions] = (labels[positions] + 3) % 10
    other = replace(validated(), federation=replace(federation, columns={**federation.columns, "y": labels}))
    one, two = (fl.run(made, "fedavg+finetune", rounds=2) for made in (validated(), other))
    for a, b in zip(one.records, two.records, strict=True):
        of_a, of_b = ({k: v for k, v in r["metrics"].items() if k.startswith(VALIDATION)} for r in (a, b))
        assert of_a
        assert of_a == of_b
    assert one.last(f"{OWN}/accuracy/mean") != two.last(f"{OWN}/accuracy/mean")


@pytest.mark.parametrize("method", ["fedavg", "ditto"])
def test_measuring_on_validation_parts_changes_nothing_else(method, monkeypatch):
    both = fl.run(validated(), method, rounds=2)
    monkeypatch.setattr("fedloom.rounds.evaluation.has_validation", lambda _: False)
    tested = fl.run(validated(), method, rounds=2)
    for one, other in zip(both.records, tested.records, strict=True):
        added = {name for name in one["metrics"] if name not in other["metrics"]}
        assert added
        assert all(name.startswith(VALIDATION) for name in added)
        same = {name: value for name, value in one["metrics"].items() if name not in added}
        assert compact_json(same) == compact_json(other["metrics"])
    for one, other in zip(both.clients, tested.clients, strict=True):
        assert {k: v for k, v in one.items() if not k.startswith("validation_")} == other


def test_executions_and_workers_agree_on_validation_parts():
    settings = [{"execution": "loop"}, {"execution": "vectorised"}, {"execution": "vectorised", "workers": 2}]
    loop, vectorised, workers = (fl.run(validated(), "fedper", rounds=2, **one) for one in settings)
    assert compact_json(workers.records) == compact_json(vectorised.records)
    assert compact_json(workers.clients) == compact_json(vectorised.clients)
    assert loop.records[-1]["metrics"] == pytest.approx(vectorised.records[-1]["metrics"], abs=2e-3)


def test_without_validation_parts_nothing_is_measured_on_them():
    history = fl.run(task(), rounds=1)
    assert not any("validation" in name for record in history.records for name in record["metrics"])
    assert not any("validation" in key for row in history.clients for key in row)


def test_a_client_without_a_validation_part_does_not_count():
    federation = validated().federation
    valid = Ragged.of([federation.valid[client] if client else [] for client in range(5)])
    made = replace(validated(), federation=replace(federation, valid=valid))
    history = fl.run(made, rounds=1)
    values = [row["validation_macro_f1"] for row in history.clients]
    assert values[0] is None
    assert history.clients[0]["macro_f1"] is not None
    assert history.last(f"{VALIDATION}/macro_f1/mean") == pytest.approx(np.mean(values[1:]))


def test_clients_models_are_measured_on_the_global_test_set_too():
    history = fl.run(task(), rounds=1, clients_on_global=True)
    shared = history.last("global_model/global_test/macro_f1")
    assert [row["global_macro_f1"] for row in history.clients] == pytest.approx([shared] * 5)
    assert history.last("client_model/global_test/auc/mean") == pytest.approx(
        history.last("global_model/global_test/auc")
    )


def test_many_clients_are_measured_a_few_at_a_time(monkeypatch):
    whole = fl.run(task(clients=12), "local", rounds=1)
    monkeypatch.setattr("fedloom.rounds.evaluation._clients_at_once", lambda _: 5)
    parts = fl.run(task(clients=12), "local", rounds=1)
    assert parts.records[-1]["metrics"] == pytest.approx(whole.records[-1]["metrics"], abs=1e-6)


def test_fewer_clients_are_measured_together_where_their_sums_are_long():
    config = resolve({"task": {"name": "digits"}})
    for metrics, expected in ((), 2048), (("macro_f1",), 2048), (("auc",), 384):
        run = prepare(task(metrics), fl.FedAvg(), config).composition
        assert _clients_at_once(run) == expected


@dataclass(frozen=True)
class Uneven(fl.Metric):
    """A metric whose sums have another length for every batch."""

    def sums(self, outputs, targets):
        return targets.double()

    def value(self, sums):
        return float(sums.sum())


def test_sums_of_different_lengths_are_refused_with_the_metrics_name():
    made = fl.task_of(task().federation, "mlp", metrics=[Uneven()])
    with pytest.raises(fl.FedloomError, match="metric uneven: sums must give a vector of the same length"):
        fl.run(made, rounds=1)


@dataclass(frozen=True)
class ThreeSums(fl.Metric):
    """A metric that has no value of its own and more sums than the usual one takes."""

    def sums(self, outputs, targets):
        return torch.ones(3)


def test_a_metric_without_a_value_needs_two_sums():
    made = fl.task_of(task().federation, "mlp", metrics=[ThreeSums()])
    with pytest.raises(fl.FedloomError, match=r"metric three_sums: write value\(self, sums\).*got 3"):
        fl.run(made, rounds=1)


class Stop(Exception):  # noqa: N818
    """A stop in the middle of a run."""


def test_a_stopped_run_with_metrics_goes_on_to_the_same_bytes(tmp_path):
    def stop(record):
        if record["round"] == 2:
            raise Stop

    fl.run(task(), "fedper", rounds=3, out=tmp_path / "whole")
    with pytest.raises(Stop):
        fl.run(task(), "fedper", rounds=3, out=tmp_path / "stopped", observers=[stop])
    fl.resume(tmp_path / "stopped")
    for name in ("metrics.jsonl", "clients.json", "config.toml"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_is_not_resumed_with_other_metrics(tmp_path):
    def stop(record):
        if record["round"] == 1:
            raise Stop

    federation = task().federation
    with pytest.raises(Stop):
        fl.run(fl.task_of(federation, metrics=["auc"]), rounds=2, out=tmp_path / "run", observers=[stop])
    with pytest.raises(fl.FedloomError, match="started with other metrics"):
        fl.resume(tmp_path / "run", task=fl.task_of(federation, metrics=["macro_f1"]))
    again = fl.resume(tmp_path / "run", task=fl.task_of(federation, metrics=["auc"]))
    assert again.score.name == "auc"


def wrong_metric(sums, value=lambda _, sums: float(sums.sum())):
    return dataclass(frozen=True)(type("Wrong", (fl.Metric,), {"sums": sums, "value": value}))()


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (wrong_metric(lambda *_: 3), r"metric wrong: sums must give a vector \(a tensor\), got 3"),
        (wrong_metric(lambda *given: torch.ones(len(given[2]))), "a vector of the same length for every"),
        (
            wrong_metric(lambda _, outputs, targets: outputs + targets[:, :7]),
            r"metric wrong: sums cannot take outputs of shape \(1, 10\) and targets of shape \(1,\): IndexError: ",
        ),
        (wrong_metric(lambda *_: torch.tensor([1.0, torch.nan])), "gives a number that is not finite"),
        (
            wrong_metric(lambda *_: torch.ones(2), lambda _, sums: sums[7]),
            "value cannot take a vector of 2 sums",
        ),
        (wrong_metric(lambda *_: torch.ones(2), lambda _, sums: sums), "value must give a number, got tensor"),
        (
            wrong_metric(lambda *_: torch.ones(2), lambda *_: "high"),
            "metric wrong: value must give a number, got 'high'",
        ),
    ],
)
def test_a_metric_that_gives_something_else_is_refused_before_anything_is_written(metric, said, tmp_path):
    with pytest.raises(fl.FedloomError, match=said):
        fl.run(fl.task("digits", clients=2, metrics=[metric]), "fedavg", rounds=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
