"""A class-incremental stream: who holds which classes in which round, and what is measured."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
import fedloom.data as fd
from fedloom.core.errors import FedloomError
from fedloom.data.changes.class_stream import ClassStream, with_class_stream
from fedloom.data.changes.communal_set import Communal, with_communal_set
from fedloom.data.changes.server_set import ServerSet, with_server_set
from support.checkpoints import final

WEIGHTED = {"name": "cross_entropy", "class_weights": [1.0] * 10}


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 5), st.integers(1, 4), st.booleans(), st.integers(0, 20))
def test_each_task_trains_on_its_classes_and_measures_all_so_far_without_a_leak(tasks, rounds, cumulative, seed):
    made = fd.from_arrays(np.zeros((300, 1)), np.arange(300) % 5, clients=3, valid_share=0.1, seed=seed)
    made = with_communal_set(made, Communal(share=0.2), seed)
    made = with_server_set(made, ServerSet(share=0.1), seed)
    held = with_class_stream(made, ClassStream(tasks, rounds, cumulative=cumulative), seed)
    y, seen = made.columns["y"], set()
    assert sorted(label for part in held.tasks for label in part) == list(range(5))
    for number, new in enumerate(held.tasks):
        seen |= set(new)
        for round_number in {1 + number * rounds, (1 + number) * rounds}:
            now = held.at(round_number)
            trained = seen if cumulative else set(new)
            for part, classes in (
                (now.train.order, trained),
                (now.valid.order, seen),
                (now.server, seen),
                (now.test.order, seen),
                (now.global_test, seen),
                (now.communal, seen),
            ):
                assert set(y[part].tolist()) <= classes
            assert now.seen.tolist() == sorted(seen)
            measured = torch.cat([now.test.order, now.global_test])
            assert not torch.isin(torch.cat([now.train.order, now.valid.order, now.communal]), measured).any()
            assert not torch.isin(now.train.order, made.valid.order).any()
            assert set(y[now.valid.order].tolist()) == set(y[made.valid.order].tolist()) & seen
            assert torch.equal(held.with_validation_as_test().at(round_number).test.order, now.valid.order)
    everything = held.at(tasks * rounds)
    assert torch.equal(everything.communal, made.communal)
    assert torch.equal(everything.test.order, made.test.order)
    assert torch.equal(everything.valid.order, made.valid.order)
    assert torch.equal(everything.server, made.server)


def test_a_server_set_is_cut_by_hidden_classes_and_one_of_another_data_set_stays_whole():
    hidden = {"share": 0.2, "labelled": False}
    order = list(range(10))
    task = fl.task("digits", clients=3, server_set=hidden, stream={"tasks": 2, "rounds": 1, "order": order})
    whole = fl.task("digits", clients=3, server_set=hidden).federation.server
    true = fl.task("digits", clients=3).federation.columns["y"]
    now = task.at(1).federation
    assert torch.equal(now.server, whole[true[whole] < 5])
    assert 0 < len(now.server) < len(task.at(2).federation.server) == len(whole)
    x = task.federation.columns["x"].numpy()
    other = with_server_set(fd.from_arrays(x, np.arange(len(x)) % 10, clients=3), ServerSet(data="digits", share=0.1))
    held = with_class_stream(other, ClassStream(2, 1))
    assert torch.equal(held.at(1).server, other.server)


def test_early_stopping_is_refused_before_the_run():
    task = fl.task("digits", clients=3, valid_share=0.2, stream={"tasks": 2, "rounds": 1})
    with pytest.raises(FedloomError, match=r"early_stopping ends a run before the later tasks of task\.stream come"):
        fl.run(task, "fedavg", rounds=2, early_stopping={"patience": 1})


def test_the_order_is_drawn_or_given():
    assert ClassStream(2, 1, order=[3, 1, 0, 2]).classes(4, seed=5) == [[3, 1], [0, 2]]
    drawn = ClassStream(2, 1).classes(10, seed=5)
    assert drawn == ClassStream(2, 1).classes(10, seed=5) != ClassStream(2, 1).classes(10, seed=6)
    assert [len(part) for part in ClassStream(3, 1).classes(10, 0)] == [4, 3, 3]


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_rows_of_classes_to_come_do_not_move_and_nobody_predicts_them(execution):
    order = list(range(10))
    task = fl.task("digits", clients=3, stream={"tasks": 5, "rounds": 1, "order": order}, model="logistic")
    history = fl.run(task, "fedavg", rounds=2, execution=execution)
    views = [task.layout.views(row) for row in (task.initial_row(), history.row)]
    for name, before in views[0].items():
        assert torch.allclose(before[4:], views[1][name][4:], rtol=1e-6)  # up to the rounding of a mean
        assert not torch.equal(before[:2], views[1][name][:2])
    wrong = np.array(history.confusion)
    assert wrong[:4, :4].sum() == wrong.sum() > 0


@pytest.mark.parametrize("method", [fl.FedMD(), fl.DSFL(), fl.FedDF(lr=0.1), fl.FDFAug(gamma=1.0), fl.FLD()])
def test_distillation_does_not_move_rows_of_classes_to_come(tmp_path, method):
    stream = {"tasks": 5, "rounds": 2, "order": list(range(10))}
    task = fl.task("digits", clients=3, partition="iid", communal=0.2, stream=stream, model="logistic")
    state = final(tmp_path / "run", method, task, rounds=2)
    kept = state.client_states.rows.get("row", ())
    rows = [*kept, *(tensor for name, tensor in state.server.items() if name == "row")]
    assert rows
    for row in rows:
        for name, before in task.layout.views(task.initial_row()).items():
            now = task.layout.views(row)[name]
            assert torch.allclose(before[2:], now[2:], rtol=1e-6)  # up to the rounding of a mean
            assert not torch.equal(before[:2], now[:2])


def test_labels_that_are_left_out_stay_with_their_task():
    task = fl.task("digits", clients=3, stream={"tasks": 2, "rounds": 1}, label_share=0.1)
    plain = fl.task("digits", clients=3, stream={"tasks": 2, "rounds": 1})
    for round_number in (1, 2):
        now, before = task.at(round_number).federation, plain.at(round_number).federation
        assert torch.equal(now.train.order, before.train.order)
    assert 0 < fl.run(task, "fedavg", rounds=2).last("global_model/global_test/accuracy") < 1


def test_clients_without_a_sample_of_a_task_do_not_take_part_in_it():
    y = np.repeat([0, 1, 2, 3], 50)
    client = np.where(y < 2, 0, 1)
    x = np.random.default_rng(0).normal(size=(200, 3))
    made = fd.from_arrays(x, y, client)
    held = with_class_stream(made, ClassStream(2, 1, order=[0, 1, 2, 3]))
    task = fl.task_of(held, "logistic")
    history = fl.run(task, "fedavg+finetune", rounds=2)
    assert [record["selected"] for record in history.records] == [[], [0], [1]]
    both = with_class_stream(made, ClassStream(3, 1, order=[0, 2, 1, 3]))  # in the first task both take part
    played = []
    with pytest.raises(FedloomError, match="number=2 per round, but there are only 1 to choose from"):
        fl.run(fl.task_of(both, "logistic"), rounds=3, selection={"number": 2}, observers=[played.append])
    assert played == []


def test_a_stopped_run_goes_on_to_the_same_bytes(tmp_path):
    task = {"name": "digits", "clients": 3, "stream": {"tasks": 2, "rounds": 2}}
    whole = fl.run(fl.task("digits", clients=3, stream=task["stream"]), "fedavg", rounds=4, out=tmp_path / "whole")
    fl.run(fl.task("digits", clients=3, stream=task["stream"]), "fedavg", rounds=3, out=tmp_path / "part")
    fl.resume(tmp_path / "part", rounds=4)
    assert (tmp_path / "whole/metrics.jsonl").read_bytes() == (tmp_path / "part/metrics.jsonl").read_bytes()
    assert whole.records[-1]["metrics"]["global_model/global_test/forgetting"] > 0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"stream": {"tasks": 1, "rounds": 1}}, r"stream\.tasks=1: it must be at least 2"),
        ({"stream": {"tasks": 2, "rounds": 0}}, r"stream\.rounds=0: it must be at least 1"),
        ({"stream": {"tasks": 11, "rounds": 1}}, "tasks=11, but there are only 10 classes"),
        ({"stream": {"tasks": 2, "rounds": 1, "order": [1, 2]}}, "order must name each of the classes 0 to 9 once"),
        ({"stream": {"tasks": 2}}, "rounds"),
        ({"stream": {"tasks": 2, "rounds": 1}, "drift": {"rounds": [2]}}, "stream and drift both change"),
        ({"stream": {"tasks": 2, "rounds": 1}, "loss": WEIGHTED}, "class_weights do not go with a stream"),
    ],
)
def test_streams_that_cannot_be_are_refused(settings, says):
    with pytest.raises(FedloomError, match=says):
        fl.task("digits", clients=3, **settings)


class Branches(torch.nn.Module):
    """A model that is no chain of layers: it is traced with a sample."""

    def __init__(self):
        super().__init__()
        self.left, self.right = torch.nn.Linear(4, 8), torch.nn.Linear(4, 8)
        self.head = torch.nn.Linear(8, 4)

    def features(self, x):
        return torch.relu(self.left(x)) + self.right(x)

    def forward(self, x):
        return self.head(self.features(x))


def skewed_stream() -> fl.Task:
    """Client 0 has classes of the second task only."""
    x, y = np.random.default_rng(0).normal(size=(80, 4)).astype("float32"), np.repeat(np.arange(4), 20)
    owners = np.where(y < 2, 1 + np.arange(80) % 2, 0)
    federation = fd.from_arrays(x, y, owners, test_share=0.3)
    held = with_class_stream(federation, ClassStream(tasks=2, rounds=1, order=[0, 1, 2, 3]), 0)
    assert held.train.sizes.tolist()[0] == 0
    return fl.task_of(held, Branches())


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedavg", {"execution": "vectorised"}),
        ("fedavg", {"execution": "loop"}),
        ("fedavg", {"execution": "compiled"}),
        ("fedrep", {}),
        ("fedproto", {}),
        ("moon", {}),
    ],
)
def test_a_stream_whose_first_client_has_no_sample_of_its_first_task_runs(method, settings):
    history = fl.run(skewed_stream(), method, rounds=2, **settings)
    assert [record["selected"] for record in history.records if record["round"]] == [[1, 2], [0]]
