"""Trackers pass on every number of a run."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.runs.trackers import TRACKERS, tracker
from support.synthetic import federation, mlp

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}


def test_tensorboard_can_be_read_back_number_by_number(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (the extra 'tensorboard')")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    watch = tracker("tensorboard", tmp_path, "a run", 3)
    history = fl.run(Task("own", federation([20, 9]), mlp()), rounds=3, local=WORK, observers=[watch])
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
        tracker("tensorbord", tmp_path, "a run", 3)
    assert str(caught.value) == (
        f"unknown tracker 'tensorbord'. Did you mean 'tensorboard'? Known: {', '.join(sorted(TRACKERS))}."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_tracker_that_is_not_installed_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(
        FedloomError, match=r"--track tensorboard needs TensorBoard: pip install 'fedloom\[tensorboard\]'"
    ):
        tracker("tensorboard", tmp_path, "a run", 3)
