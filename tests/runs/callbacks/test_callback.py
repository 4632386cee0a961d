"""A callback sees a run and may stop it, and changes nothing else: a run has the same bytes with it and without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from support.folders import written
from support.synthetic import federation, mlp

HOW: dict[str, Any] = {"rounds": 4, "local": {"epochs": 1, "batch_size": 16}, "selection": {"number": 2}}
ALL = {**HOW, "selection": {}}


def task() -> Task:
    return Task("own", federation([20, 9, 14, 31]), mlp())


class Diary(fl.Callback):
    """Writes down what it is called with."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def run_begins(self, history: fl.History) -> None:
        self.events.append(("run begins", len(history.records)))

    def round_begins(self, number: int) -> None:
        self.events.append(("round begins", number))

    def client_trained(self, work: fl.ClientWork) -> None:
        self.events.append(("client", work.round, work.client))

    def round_ends(self, record: dict[str, Any]) -> None:
        self.events.append(("round ends", record["round"]))

    def run_ends(self, history: fl.History) -> None:
        self.events.append(("run ends", history.stopped))

    def close(self) -> None:
        self.events.append(("close",))


class StopAt(fl.Callback):
    """Stops a run at an event of a round."""

    def __init__(self, event: str, number: int = 2) -> None:
        self.event, self.number = event, number

    def _at(self, event: str, number: int) -> None:
        if (event, number) == (self.event, self.number):
            raise fl.StopRun("it is good enough")

    def run_begins(self, history: fl.History) -> None:
        self._at("run_begins", 2)

    def round_begins(self, number: int) -> None:
        self._at("round_begins", number)

    def client_trained(self, work: fl.ClientWork) -> None:
        self._at("client_trained", work.round)

    def round_ends(self, record: dict[str, Any]) -> None:
        self._at("round_ends", record["round"])


class Vandal(fl.Callback):
    """Changes everything that it is given."""

    def run_begins(self, history: fl.History) -> None:
        history.config.clear()
        history.records.clear()

    def round_ends(self, record: dict[str, Any]) -> None:
        record["metrics"].clear()
        record.clear()


def test_a_callback_is_called_in_the_order_of_the_run() -> None:
    diary = Diary()
    history = fl.run(task(), callbacks=[diary], **HOW)
    expected: list[tuple[Any, ...]] = [("run begins", 0), ("round ends", 0)]
    for record in history.records[1:]:
        number = record["round"]
        clients = [("client", number, client) for client in record["selected"]]
        expected += [("round begins", number), *clients, ("round ends", number)]
    assert diary.events == [*expected, ("run ends", None), ("close",)]


@pytest.mark.parametrize(
    "engine",
    [{"workers": 2}, pytest.param({"engine": "ray", "workers": 2}, marks=pytest.mark.slow)],
    ids=["processes", "ray"],
)
def test_every_engine_calls_in_this_process_and_in_the_same_order(engine: dict[str, Any]) -> None:
    if "engine" in engine:
        pytest.importorskip("ray", reason="ray is not installed: the engine on Ray is not tried")
    one, other = Diary(), Diary()
    fl.run(task(), callbacks=[one], execution="loop", **HOW)
    fl.run(task(), callbacks=[other], execution="loop", **HOW, **engine)
    assert one.events == other.events


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedseq", "local"])
def test_a_run_has_the_same_bytes_with_callbacks_that_change_what_they_get(tmp_path: Path, method: str) -> None:
    fl.run(task(), method, out=tmp_path / "without", **ALL)
    fl.run(task(), method, out=tmp_path / "with", callbacks=[Vandal(), Diary(), Vandal()], **ALL)
    assert written(tmp_path / "with") == written(tmp_path / "without")


def test_the_work_of_clients_adds_up_to_the_record() -> None:
    found: list[fl.ClientWork] = []

    class Collect(fl.Callback):
        def client_trained(self, work: fl.ClientWork) -> None:
            found.append(work)

    history = fl.run(task(), "fedseq", callbacks=[Collect()], **ALL)
    for record in history.records[1:]:
        mine = [work for work in found if work.round == record["round"]]
        assert sum(work.steps for work in mine) == record["steps"]
        assert {work.client for work in mine} == set(record["selected"])
        assert all(work.samples == [20, 9, 14, 31][work.client] for work in mine)


def test_a_private_run_with_secret_draws_names_no_client() -> None:
    diary = Diary()
    private = {"name": "privatemean", "noise": 1.0, "clip": 1.0}
    drawn = {"name": "poisson", "rate": 0.5}
    many = Task("own", federation([5] * 40), mlp())
    fl.run(many, callbacks=[diary], rounds=2, selection=drawn, eval_every=0, aggregation=private)
    assert not [event for event in diary.events if event[0] == "client"]
    assert ("round ends", 2) in diary.events


@pytest.mark.parametrize(
    ("event", "last"), [("run_begins", 0), ("round_begins", 1), ("client_trained", 2), ("round_ends", 2)]
)
def test_a_callback_stops_a_run_at_the_end_of_a_round(tmp_path: Path, event: str, last: int) -> None:
    fl.run(task(), out=tmp_path / "whole", **HOW)
    history = fl.run(task(), out=tmp_path / "cut", callbacks=[StopAt(event)], **HOW)
    assert (history.records[-1]["round"], history.stopped) == (last, "it is good enough")
    assert len(history.clients) == 4
    again = fl.History.load(tmp_path / "cut")
    assert (again.stopped, again.can_continue, again.records) == (history.stopped, True, history.records)
    resumed = fl.resume(tmp_path / "cut", task=task())
    assert isinstance(resumed, fl.History)
    assert (resumed.stopped, resumed.can_continue) == (None, False)
    assert written(tmp_path / "cut") == written(tmp_path / "whole")


@pytest.mark.parametrize("how", [{"eval_every": 3}, {"checkpoint_every": 3}], ids=["evaluations", "checkpoints"])
def test_a_run_may_be_stopped_between_evaluations_and_checkpoints(tmp_path: Path, how: dict[str, Any]) -> None:
    fl.run(task(), "ditto", out=tmp_path / "whole", **HOW, **how)
    history = fl.run(task(), "ditto", out=tmp_path / "cut", callbacks=[StopAt("round_ends")], **HOW, **how)
    alone = fl.run(task(), "ditto", **{**HOW, "rounds": 2})
    assert history.clients == alone.clients
    resumed = fl.resume(tmp_path / "cut", task=task())
    assert isinstance(resumed, fl.History)
    for name in ("metrics.jsonl", "clients.json", "checkpoints/round-000004.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_same_callback_stops_a_resumed_run_at_once(tmp_path: Path) -> None:
    fl.run(task(), out=tmp_path / "run", callbacks=[StopAt("round_ends")], **HOW)
    before = written(tmp_path / "run")
    again = fl.resume(tmp_path / "run", task=task(), callbacks=[StopAt("round_ends")])
    assert isinstance(again, fl.History)
    assert again.stopped == "it is good enough"
    assert written(tmp_path / "run") == before


def test_a_stop_in_the_last_round_is_none() -> None:
    history = fl.run(task(), callbacks=[StopAt("round_ends", 4)], **HOW)
    assert (history.stopped, history.records[-1]["round"]) == (None, 4)


def test_early_stopping_and_a_callback_go_together(tmp_path: Path) -> None:
    own = fl.from_arrays(*_arrays(), clients=4, valid_share=0.3)
    how = {**HOW, "rounds": 6, "early_stopping": {"patience": 2}}
    whole = fl.run(fl.task_of(own, mlp()), out=tmp_path / "whole", **how)
    fl.run(fl.task_of(own, mlp()), out=tmp_path / "cut", callbacks=[StopAt("round_ends", 2)], **how)
    resumed = fl.resume(tmp_path / "cut", task=fl.task_of(own, mlp()))
    assert isinstance(resumed, fl.History)
    assert (resumed.records, resumed.clients) == (whole.records, whole.clients)


def _arrays() -> tuple[Any, Any]:
    data = federation([20, 29, 34, 31])
    return data.columns["x"].numpy(), data.columns["y"].numpy()


def test_an_error_in_a_callback_ends_the_run_and_closes_every_callback(tmp_path: Path) -> None:
    diary = Diary()

    class Broken(fl.Callback):
        def round_ends(self, record: dict[str, Any]) -> None:
            if record["round"] == 3:
                raise KeyError("my mistake")

    with pytest.raises(KeyError, match="my mistake"):
        fl.run(task(), out=tmp_path / "run", callbacks=[Broken(), diary], **HOW)
    assert diary.events[-1] == ("close",)
    assert not [event for event in diary.events if event[0] == "run ends"]
    resumed = fl.resume(tmp_path / "run", task=task())
    assert isinstance(resumed, fl.History)
    assert resumed.records[-1]["round"] == 4


def test_functions_are_callbacks_under_both_names() -> None:
    seen: list[int] = []
    fl.run(task(), callbacks=[lambda r: seen.append(r["round"])], observers=[lambda r: seen.append(-r["round"])], **HOW)
    assert seen == [0, 0, 1, -1, 2, -2, 3, -3, 4, -4]


@pytest.mark.parametrize("workers", [1, 2])
def test_each_run_of_a_comparison_has_a_copy_and_may_be_stopped(workers: int) -> None:
    shared: list[tuple[str, int]] = []

    class StopLocal(fl.Callback):
        """Stops one of the methods; which run it sees it learns when the run begins."""

        def __init__(self) -> None:
            self.rounds = shared

        def run_begins(self, history: fl.History) -> None:
            self.label = history.label

        def round_ends(self, record: dict[str, Any]) -> None:
            self.rounds.append((self.label, record["round"]))
            if self.label == "local" and record["round"] == 2:
                raise fl.StopRun("local is enough")

    found = fl.compare(task(), ["fedavg", "local"], workers=workers, callbacks=[StopLocal()], **HOW)
    assert [runs[0].stopped for runs in found.values()] == [None, "local is enough"]
    assert sorted(shared) == [("fedavg", n) for n in range(5)] + [("local", n) for n in range(3)]


def test_a_comparison_continues_the_runs_that_a_callback_stopped(tmp_path: Path) -> None:
    whole = fl.compare(task(), ["fedavg", "local"], out=tmp_path / "whole", **HOW)
    cut = fl.compare(task(), ["fedavg", "local"], out=tmp_path / "cut", callbacks=[StopAt("round_ends")], **HOW)
    assert {runs[0].records[-1]["round"] for runs in cut.values()} == {2}
    assert fl.compare(task(), ["fedavg", "local"], out=tmp_path / "cut", **HOW) == whole
    assert written(tmp_path / "cut") == written(tmp_path / "whole")


def test_a_run_that_diverged_is_not_continued_as_one_that_was_stopped(tmp_path: Path) -> None:
    with pytest.warns(fl.StoppedWarning):
        history = fl.run(task(), out=tmp_path / "run", **{**HOW, "local": {"lr": 1e9, "epochs": 5}})
    assert history.stopped is not None
    assert not history.can_continue
    with pytest.raises(FedloomError, match="has ended"):
        fl.resume(tmp_path / "run", task=task())
