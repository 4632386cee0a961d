"""Sweeps: what a grid means, that every combination is checked first, and that a stopped sweep goes on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.registry.validation import read_toml
from fedloom.runs.plans import members
from fedloom.runs.plans import sweep as s
from support.synthetic import federation, mlp

ACCURACY = "client_model/own_test/accuracy/mean"
VALIDATION = "client_model/own_validation/accuracy/mean"


@pytest.fixture
def task():
    return fl.task_of(federation([30, 20, 10]).with_validation_part(0.2), mlp())


def test_every_combination_is_that_run(task):
    swept = fl.sweep(task, "fedprox", grid={"method.mu": [0.0, 5.0], "local.lr": [0.1, 0.5]}, rounds=2, seeds=2)
    for chosen, runs in zip(swept.settings.values(), swept.runs.values(), strict=True):
        for seed, run in enumerate(runs):
            alone = fl.run(
                task, fl.FedProx(mu=chosen["method.mu"]), rounds=2, seed=seed, local={"lr": chosen["local.lr"]}
            )
            assert run.records == alone.records
    first = swept.rows[0]
    assert first["means"][VALIDATION] == max(row["means"][VALIDATION] for row in swept.rows)
    assert swept.best == first["settings"]
    assert (swept.chosen_by, swept.set_aside) == (VALIDATION, None)


def test_a_method_of_ones_own_is_swept_as_an_object_and_as_a_class(task):
    @dataclass(frozen=True)
    class Slow(fl.FedAvg):
        share: float = 0.5

        def aggregate(self, server, replies):
            return {"row": server["row"] + self.share * (replies.mean("row") - server["row"])}

    for method in (Slow, Slow(share=0.25)):
        swept = fl.sweep(task, method, grid={"method.share": [0.0, 1.0]}, rounds=2)
        still, whole = swept.runs.values()
        assert still[0].row.equal(task.initial_row())
        assert whole[0].records == fl.run(task, "fedavg", rounds=2).records
    with pytest.raises(FedloomError, match="sharre"):
        fl.sweep(task, Slow, grid={"method.sharre": [0.0, 1.0]}, rounds=2)


def test_the_data_are_swept_where_the_task_has_a_name(task):
    named = fl.task("digits", clients=4, alpha=1.0, seed=3)
    swept = fl.sweep(named, grid={"task.partition.alpha": [0.1, 100.0]}, rounds=1)
    sizes = [[row["train"] for row in runs[0].clients] for runs in swept.runs.values()]
    for alpha, trained in zip((0.1, 100.0), sizes, strict=True):
        expected = fl.task("digits", clients=4, alpha=alpha, seed=3, valid_share=0.2)
        assert trained == expected.federation.train.sizes.tolist()
    assert swept.set_aside == 0.2
    with pytest.raises(FedloomError, match="needs a named task"):
        fl.sweep(task, grid={"task.clients": [2, 3]}, rounds=1)


def test_a_task_per_seed_is_given_as_a_function():
    made = []

    def of(seed):
        made.append(seed)
        return fl.task_of(federation([20 + seed, 10]), mlp())

    swept = fl.sweep(of, grid={"local.lr": [0.1, 0.2]}, seeds=2, rounds=1)
    assert [runs[1].clients[0]["train"] for runs in swept.runs.values()] == [21 - 8, 21 - 8]  # 20 % of 42 points
    assert made.count(1) == 1


@pytest.mark.slow
def test_a_stopped_sweep_goes_on_to_the_same_bytes(task, tmp_path, monkeypatch):
    how = {"grid": {"local.lr": [0.1, 0.2, 0.3]}, "rounds": 3, "seeds": 2}
    fl.sweep(task, out=tmp_path / "whole", **how)
    played = 0

    def stop_at_fourth_run(*arguments):
        nonlocal played
        played += 1
        if played == 4:
            raise KeyboardInterrupt
        return real(*arguments)

    real = members.execute
    monkeypatch.setattr(members, "execute", stop_at_fourth_run)
    with pytest.raises(KeyboardInterrupt):
        fl.sweep(task, out=tmp_path / "cut", **how)
    monkeypatch.undo()
    half = next(tmp_path.glob("cut/*-seed0"))
    (half / "clients.json").unlink()
    before = sorted(path.name for path in tmp_path.glob("cut/*"))
    assert len(before) == 4
    fl.sweep(task, out=tmp_path / "cut", **how)
    for path in tmp_path.glob("whole/*/metrics.jsonl"):
        assert path.read_bytes() == (tmp_path / "cut" / path.relative_to(tmp_path / "whole")).read_bytes()


def test_a_finished_sweep_is_only_read_and_another_one_is_refused(task, tmp_path):
    fl.sweep(task, grid={"local.lr": [0.1, 0.2]}, rounds=1, out=tmp_path / "a")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    fl.sweep(task, grid={"local.lr": [0.1, 0.2]}, rounds=1, out=tmp_path / "a")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
    with pytest.raises(FedloomError, match="contains another sweep"):
        fl.sweep(task, grid={"local.lr": [0.1, 0.4]}, rounds=1, out=tmp_path / "a")
    fl.run(task, rounds=1, out=tmp_path / "run")
    with pytest.raises(FedloomError, match="already contains a run"):
        fl.sweep(task, grid={"local.lr": [0.1]}, rounds=1, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("grid", "more", "part"),
    [
        ({"local.lr": [0.1, -1.0]}, {}, "lr=-1"),
        ({"local.lr": [0.1, "much"]}, {}, "local.lr='much'"),
        ({"local.speed": [1, 2]}, {}, "unknown key in the configuration: 'local.speed'"),
        ({"speed": [1, 2]}, {}, "unknown key in the configuration: 'speed'"),
        ({"method.mu": [1, 2]}, {}, "unknown key in method fedavg: 'mu'"),
        ({"method": ["fedavg", "fedavgg"]}, {}, "Did you mean 'fedavg'"),
        ({"rounds.more": [1, 2]}, {"rounds": 2}, "rounds is a value"),
        ({"local.lr": [0.1]}, {"seeds": 0}, "seeds=0"),
        ({"local.lr": [0.1]}, {"metrics": ["accuracy"]}, "unknown metric 'accuracy'"),
        ({"local.lr": [0.1]}, {"metrics": []}, "needs a metric"),
        ({"local.lr": [0.1]}, {"eval_every": 0}, "measures nothing"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_is_written(task, tmp_path, grid, more, part):
    with pytest.raises(FedloomError, match=part):
        fl.sweep(task, grid=grid, out=tmp_path / "a", **more)
    assert list(tmp_path.iterdir()) == []


def test_a_task_without_validation_parts_gets_some_and_test_data_do_not_choose():
    bare = fl.task_of(federation([30, 20, 10]), mlp())
    swept = fl.sweep(bare, grid={"local.lr": [0.01, 0.3]}, rounds=2)
    assert swept.set_aside == 0.2
    assert "20 % of each one's samples were set aside" in str(swept)
    for row in swept.rows:
        assert set(row["means"]) == {VALIDATION, ACCURACY, "global_model/global_test/accuracy"}
    named = fl.sweep(fl.task("digits", clients=4, test_share=0.3), grid={"local.lr": [0.1, 0.2]}, rounds=1)
    assert named.set_aside == 0.3
    assert "validation_accuracy" in next(iter(named.runs.values()))[0].clients[0]


def test_other_test_labels_change_no_choice():
    task = fl.task("digits", clients=4, alpha=0.5, seed=1, valid_share=0.2)
    labels = task.federation.columns["y"].clone()
    labels[task.federation.test.order] = (labels[task.federation.test.order] + 1) % 10
    other = replace(
        task, federation=replace(task.federation, columns={**task.federation.columns, "y": labels}), made_from={}
    )
    one, two = (fl.sweep(made, grid={"local.lr": [0.01, 0.1, 0.3]}, rounds=2) for made in (task, other))
    assert [row["label"] for row in one.rows] == [row["label"] for row in two.rows]
    assert [row["means"][VALIDATION] for row in one.rows] == [row["means"][VALIDATION] for row in two.rows]
    assert [row["means"][ACCURACY] for row in one.rows] != [row["means"][ACCURACY] for row in two.rows]


def test_a_sweep_that_set_samples_aside_is_resumed_with_them(tmp_path):
    task = fl.task("digits", clients=4, alpha=0.5, seed=1)
    fl.sweep(task, grid={"local.lr": [0.1, 0.2]}, rounds=1, out=tmp_path / "a")
    assert read_toml(tmp_path / "a" / s.PLAN)["config"]["task"]["valid_share"] == 0.2
    next(tmp_path.glob("a/001*/clients.json")).unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("metrics.jsonl")}
    plan = read_toml(tmp_path / "a" / s.PLAN)
    swept = s.run_sweep(tmp_path / "a", plan, lambda *_: (), s.RunFactory())
    assert swept.set_aside == 0.2
    assert {path: path.read_bytes() for path in tmp_path.rglob("metrics.jsonl")} == before


@pytest.mark.parametrize(
    ("metric", "chosen_by"),
    [
        (ACCURACY, VALIDATION),
        ("client_model/own_test/loss/big", "client_model/own_validation/loss/big"),
        ("trained_model/own_test/accuracy/std", "client_model/own_validation/accuracy/std"),
        ("global_model/global_test/loss", "client_model/own_validation/loss/weighted"),
        ("client_model/own_test/withheld_recall/mean", VALIDATION),
        ("client_model/own_test/accuracy/per_selected", VALIDATION),
        (VALIDATION, VALIDATION),
    ],
)
def test_every_metric_on_test_data_has_one_on_validation_data_that_chooses(metric, chosen_by):
    assert s.validation_name(s.full_name(metric, ["accuracy"]), "accuracy") == chosen_by


def test_metrics_have_short_names_and_full_ones():
    assert s.full_name("clients", ["accuracy"]) == ACCURACY
    assert s.full_name("clients", ["squared_error"]) == "client_model/own_test/squared_error/mean"
    assert s.full_name("trained_model/own_test/loss/big", ["accuracy"]) == "trained_model/own_test/loss/big"
    for short, full in s.METRICS.items():
        assert s.full_name(full.format(score="accuracy"), ["accuracy"]) == s.full_name(short, ["accuracy"])


def test_a_folder_that_is_written_says_what_was_swept(task, tmp_path):
    fl.sweep(task, "fedprox:mu=2", grid={"local.lr": [0.1, 0.2]}, rounds=1, seeds=2, out=tmp_path / "a")
    plan = read_toml(tmp_path / "a" / s.PLAN)
    assert plan["grid"] == {"local.lr": [0.1, 0.2]}
    assert (plan["seeds"], plan["config"]["method"]) == (2, {"name": "fedprox", "mu": 2})
