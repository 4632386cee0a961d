"""Trackers pass on every number of a run."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.runs.callbacks.trackers import TRACKERS, make_trackers
from support.synthetic import federation, mlp

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}


def test_tensorboard_can_be_read_back_number_by_number(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (the extra 'tensorboard')")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    watch = make_trackers(["tensorboard"], tmp_path, "a run")
    history = fl.run(Task("own", federation([20, 9]), mlp()), rounds=3, local=WORK, observers=watch)
    read = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    last = history.records[-1]
    assert set(read.Tags()["scalars"]) == {*last["metrics"], "bytes_up", "bytes_down", "bytes_between", "steps"}
    for name in last["metrics"]:
        rounds, values = history.series(name)
        events = read.Scalars(name)
        assert [event.step for event in events] == rounds
        assert [event.value for event in events] == pytest.approx(values, rel=1e-6)
    assert [event.value for event in read.Scalars("bytes_up")] == [record["bytes_up"] for record in history.records]


def test_an_unknown_tracker_is_one_sentence_with_the_known_ones(tmp_path):
    with pytest.raises(FedloomError) as caught:
        make_trackers(["mlflow", "tensorbord"], tmp_path, "a run")
    assert str(caught.value) == (
        f"unknown tracker 'tensorbord'. Did you mean 'tensorboard'? Known: {', '.join(sorted(TRACKERS))}."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_tracker_that_is_not_installed_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(
        FedloomError, match=r"--track tensorboard needs TensorBoard: pip install 'fedloom\[tensorboard\]'"
    ):
        make_trackers(["tensorboard"], tmp_path, "a run")


def test_trackers_need_a_folder():
    with pytest.raises(FedloomError, match="give out= too"):
        fl.run("digits", rounds=1, track=["tensorboard"])
    with pytest.raises(FedloomError, match="give out= too"):
        fl.compare("digits", ["fedavg"], rounds=1, track=["tensorboard"])


@pytest.mark.slow
def test_a_comparison_has_a_tensorboard_run_per_method_and_seed(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (the extra 'tensorboard')")
    own = Task("own", federation([20, 9]), mlp())
    fl.compare(own, ["fedavg", "local"], seeds=2, rounds=1, local=WORK, out=tmp_path / "c", track=["tensorboard"])
    found = {path.name for path in (tmp_path / "c" / "tensorboard").iterdir()}
    assert found == {"fedavg-seed0", "fedavg-seed1", "local-seed0", "local-seed1"}


def test_mlflow_runs_end_with_the_run_also_when_it_diverges(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="mlflow is not installed (the extra 'mlflow')")
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    own = Task("own", federation([20, 9]), mlp())
    with pytest.warns(fl.StoppedWarning):
        fl.run(own, rounds=3, local={"lr": 1e30}, out=tmp_path / "a", track=["mlflow"])
    client = MlflowClient(tracking_uri=(tmp_path / "a" / "mlflow").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("fedloom").experiment_id])
    assert run.info.status == "FINISHED"


@pytest.mark.slow
def test_wandb_keeps_every_number_on_this_machine(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed (the extra 'wandb')")
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    monkeypatch.delenv("WANDB_MODE", raising=False)
    own = Task("own", federation([20, 9]), mlp())
    found = fl.compare(own, ["fedavg", "local"], rounds=2, local=WORK, out=tmp_path / "c", track=["wandb"])
    logged = {}
    for path in (tmp_path / "c" / "wandb").glob("offline-run-*/*.wandb"):
        store, name, rounds = DataStore(), "", []
        store.open_for_scan(str(path))
        while (data := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "run":
                name = record.run.display_name
                assert record.run.run_group == "c"
            elif record.WhichOneof("record_type") == "history":
                rounds.append({item.key or "/".join(item.nested_key): item.value_json for item in record.history.item})
        logged[name] = rounds
    assert set(logged) == {"fedavg-seed0", "local-seed0"}
    for label, runs in found.items():
        for record, sent in zip(runs[0].records, logged[f"{label}-seed0"], strict=True):
            for name, value in record["metrics"].items():
                assert float(sent[name]) == pytest.approx(value)
            assert int(sent["_step"]) == record["round"]
