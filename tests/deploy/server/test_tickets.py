"""Which kept state counts: after rounds that were tried again, and after a server was killed at any moment at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.deploy.server.tickets import Tickets, refuse_lost_states
from fedloom.rounds.run_state import RunState
from fedloom.runs.folder.checkpoint import load_checkpoint
from support.local_transport import Local, Plan, Sent, quick, simulate

pytestmark = pytest.mark.usefixtures(quick.__name__)
CHAINS = "fedseq:grouping=random,max_clients=2,passes=2,inner=feddyn"
"""Clients work twice in a round, and keep something each time."""


@cache
def plan(spec: str) -> Plan:
    return Plan.of(spec, rounds=2)


@cache
def undisturbed_state(spec: str, folder: Path) -> RunState:
    simulate(plan(spec), folder=folder)
    state = load_checkpoint(folder, 3)
    assert state is not None
    return state


@pytest.fixture(scope="module")
def simulator(tmp_path_factory) -> Callable[[str], RunState]:
    folder = tmp_path_factory.mktemp("simulated")
    return lambda spec: undisturbed_state(spec, folder / spec.partition(":")[0])


def ends_as(local: Local, wanted: RunState) -> None:
    """The server's state and what every site keeps are the simulator's, to the byte."""
    found = load_checkpoint(local.run, 3)
    assert found is not None
    assert found.round == wanted.round
    assert found.server.keys() == wanted.server.keys()
    for name, tensor in wanted.server.items():
        assert tensor.numpy().tobytes() == found.server[name].numpy().tobytes(), name
    assert wanted.client_states.rows
    for client in range(3):
        own = local.state(client)
        for name, rows in wanted.client_states.rows.items():
            assert torch.equal(own[name], rows[client : client + 1]), (client, name)


# -- the book itself


def test_a_round_begins_where_the_last_one_ended_and_again_where_it_began(tmp_path):
    book = Tickets(tmp_path / "t.json", None)
    book.begin(0)
    book.begin(1)
    book.take(0, "a1")
    book.begin(1)  # too few answered
    assert (book.base, book.state) == ({}, {})
    book.take(0, "a2")
    book.begin(2)
    assert (book.base, book.state) == ({0: "a2"}, {0: "a2"})
    book.take(0, "a3")
    book.take(0, "a4")  # a second piece of work in the same round
    assert (book.base, book.state) == ({0: "a2"}, {0: "a4"})
    book.begin(2)
    assert book.state == {0: "a2"}


@pytest.mark.parametrize(("finished", "means"), [(1, {0: "old"}), (2, {0: "new"}), (3, {0: "new"}), (None, {})])
def test_it_is_opened_as_its_checkpoint_means_it(tmp_path, finished, means):
    book = Tickets(tmp_path / "t.json", None)
    book.begin(1)
    book.take(0, "old")
    book.begin(2)
    book.take(0, "new")
    again = Tickets(tmp_path / "t.json", finished)
    assert again.state == again.base == means


def test_what_is_forgotten_is_neither_state_nor_base(tmp_path):
    book = Tickets(tmp_path / "t.json", None)
    book.begin(1)
    book.take(0, "a")
    book.take(1, "b")
    book.begin(2)
    book.forget(0)
    assert book.base == book.state == {1: "b"}
    assert Tickets(tmp_path / "t.json", 1).state == {1: "b"}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"round": 1, "base": 3, "state": 4}', '{"round": "x"}', "null"])
def test_a_book_that_cannot_be_read_is_named(tmp_path, content):
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(FedloomError, match=r"t\.json cannot be read: restore it, or start a new run"):
        Tickets(tmp_path / "t.json", 1)


def test_a_run_that_kept_nothing_has_no_book_to_open(tmp_path):
    assert Tickets(tmp_path / "none.json", 4).state == {}


# -- a server that is killed (faults 6, 45)


class ServerKilledError(BaseException):
    """kill -9: nothing after it happens."""


class Watch:
    """Kills the server before the n-th thing that anybody else could see: a write, or a message sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        self.seen: list[str] = []
        for module in ("runs.folder.checkpoint", "runs.folder.manifest", "runs.runner", "deploy.server.tickets"):
            self._watch(monkeypatch, f"fedloom.{module}.write_atomic", f"{module}.write_atomic")
        self._watch(monkeypatch, "fedloom.runs.folder.metrics_file._append", "append")
        self._watch(monkeypatch, "support.local_transport.LocalTransport.send", "send")

    def _watch(self, monkeypatch: pytest.MonkeyPatch, target: str, name: str) -> None:
        real = resolve_name(target)

        def count_and_call(*given: Any, **named: Any) -> Any:
            self.tick(name)
            return real(*given, **named)

        monkeypatch.setattr(target, count_and_call)

    def tick(self, name: str) -> None:
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            raise ServerKilledError
        self.left -= 1
        self.seen.append(name)


def kill_at(local: Local, watch: Watch, moment: int) -> bool:
    """Whether a run that is killed at a moment came to it; if not, it is finished."""
    watch.left = moment
    try:
        local.play()
    except ServerKilledError:
        return True
    finally:
        watch.left = None
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec", ["scaffold", *(pytest.param(s, marks=pytest.mark.exhaustive) for s in ("fedrep", CHAINS))]
)
def test_a_server_that_is_killed_at_any_moment_goes_on_to_the_same_bytes(tmp_path, monkeypatch, simulator, spec):
    wanted, watch, moment, works = simulator(spec), Watch(monkeypatch), 0, 6 if spec == CHAINS else 3
    while True:
        local = Local(plan(spec), tmp_path / str(moment))
        watch.seen = []
        if not kill_at(local, watch, moment):
            break
        local.play()
        ends_as(local, wanted)
        moment += 1
    ends_as(local, wanted)
    assert {name: watch.seen.count(name) for name in set(watch.seen)} == {
        "runs.runner.write_atomic": 2,  # partition, config
        "runs.folder.checkpoint.write_atomic": 3,  # two rounds, clients
        "runs.folder.manifest.write_atomic": 4,  # the start, two rounds, the results
        "deploy.server.tickets.write_atomic": 3 + 2 * works,  # a round begins three times
        "append": 4,
        "send": 3 + 2 * works,
    }
    assert moment == len(watch.seen)


@pytest.mark.slow
def test_a_server_may_be_killed_again_and_again(tmp_path, monkeypatch, simulator):
    wanted, watch = simulator("scaffold"), Watch(monkeypatch)
    for step in (4, 5, 7, 11):  # killed after this many writes and messages
        local = Local(plan("scaffold"), tmp_path / str(step))
        deaths = 0
        while kill_at(local, watch, step + deaths):  # a little longer each time, or it would never end
            deaths += 1
        assert deaths > 1
        ends_as(local, wanted)


# -- rounds that are tried again (fault 5)


@pytest.mark.parametrize("spec", ["scaffold", "fedrep"])
def test_a_round_that_was_abandoned_is_tried_again_from_the_same_states(tmp_path, simulator, spec):
    local = Local(plan(spec), tmp_path, min_clients=3)
    refused: list[Sent] = []

    def once(sent: Sent) -> bytes:
        if (sent.node, sent.request.round, sent.request.kind) == (1, 2, "update") and len(refused) < 1:
            refused.append(sent)
            return b"garbage"
        return sent.answer

    local.transport.meddle = once
    history = local.play()
    ends_as(local, simulator(spec))
    assert [(e["name"], e["what"]) for e in history.records[-1]["excluded"]] == [("south", "update")]


def test_the_book_is_plain_json_of_tickets(tmp_path):
    book = Tickets(tmp_path / "t.json", None)
    book.begin(1)
    book.take(2, "a")
    assert json.loads((tmp_path / "t.json").read_text()) == {
        "format": 1, "round": 1, "base": {}, "state": {"2": "a"},
    }  # fmt: skip
    (tmp_path / "t.json").write_text('{"format": 2, "round": 1}')
    with pytest.raises(FedloomError, match=r"newer Fedloom \(tickets: format 2, this one knows 1\): upgrade Fedloom"):
        Tickets(tmp_path / "t.json", 1)


def test_a_run_goes_back_only_as_far_as_sites_have_their_states(tmp_path):
    path = tmp_path / "tickets.json"
    refuse_lost_states(path, 1)  # nobody has been asked yet
    tickets = Tickets(path, None)
    for number in (1, 2, 3):
        tickets.begin(number)
        tickets.take(0, f"ticket {number}")
    for number in (2, 3):
        refuse_lost_states(path, number)
    assert Tickets(path, 2).state == {0: "ticket 2"}
    with pytest.raises(
        FedloomError, match="the run cannot go back to round 1: continue from round 2, or begin a new run"
    ):
        refuse_lost_states(path, 1)
