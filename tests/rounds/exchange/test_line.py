"""The line of stations; and waves: several exchanges in one round, their costs, what clients keep between them."""

from __future__ import annotations

import inspect
import re
import shutil
from dataclasses import dataclass, replace

import pytest
import torch

import fedloom as fl
from fedloom.core.algorithm import Round, State
from fedloom.core.local_work import LocalWork
from fedloom.core.selector import Choice
from fedloom.rounds.exchange.adversary import Collusion, HostileServer
from fedloom.rounds.exchange.asking import AskRows, AskSum
from fedloom.rounds.exchange.budget import PrivacyBudget
from fedloom.rounds.exchange.chain_loss import ChainLoss
from fedloom.rounds.exchange.decoding import Decoding
from fedloom.rounds.exchange.downlink import DownlinkCoding
from fedloom.rounds.exchange.finiteness import Finiteness
from fedloom.rounds.exchange.keeping import Keeping
from fedloom.rounds.exchange.line import describe_line, line_of
from fedloom.rounds.exchange.protection import Protection
from fedloom.rounds.exchange.screening import ReplyScreening
from fedloom.rounds.exchange.silence import Silence
from fedloom.runs.folder.checkpoint import load_checkpoint, save_start
from support.paths import DOCS
from support.silent_clients import missing, play_run, prepare_run
from support.synthetic import SIZES, cohort, small_task

STATIONS = (
    *(HostileServer, DownlinkCoding, Keeping, ChainLoss, Protection, ReplyScreening),
    *(Collusion, Decoding, Finiteness, Silence, PrivacyBudget),
)
WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}


@dataclass(frozen=True)
class Relay(fl.Algorithm):
    """Everybody trains, then client 0 trains on from everybody's mean, which client 1 hands to it."""

    turns = 2

    turn: int = 1

    def client_update(self, cohort: fl.Cohort, message: fl.Message) -> fl.Reply:
        count = cohort.kept_rows("count", torch.zeros(len(cohort), 1))
        cohort.keep("count", count + 1)
        return fl.Reply({"row": cohort.train(cohort.spread(message["row"])), "count": count})

    def play(self, server: State, ids: list[int], context: fl.ServerContext) -> Round:
        first = yield fl.Wave(ids, fl.Message({"row": server["row"]}))
        yes, no = torch.tensor([True]), torch.tensor([False])
        second = yield fl.Wave([0], fl.Message({"row": first.mean("row")}), self.turn, from_server=no, to_server=yes)
        return {"row": second["row"][0], "counts": torch.cat([first["count"], second["count"]])}


def run(method: fl.Algorithm, **settings: object) -> fl.History:
    return fl.run(small_task(), method, **{"rounds": 1, "seed": 3, "local": WORK, **settings})  # type: ignore[arg-type]


def test_a_second_wave_starts_where_the_first_ended():
    task, work = small_task(), LocalWork(**WORK)  # type: ignore[arg-type]
    everyone = cohort(task, "vectorised", work)
    rows = everyone.train(everyone.spread(task.initial_row()))
    mean = (torch.tensor(SIZES) / sum(SIZES)) @ rows
    again = cohort(task, "vectorised", work, [0])
    again.turn = 1
    expected = again.train(again.spread(mean))[0]
    history = run(Relay(), execution="vectorised")
    assert history.row is not None
    assert torch.allclose(history.row, expected, atol=1e-6)


def test_each_turn_has_batches_of_its_own():
    one, other = run(Relay(turn=1)).row, run(Relay(turn=0)).row
    assert one is not None
    assert other is not None
    assert not torch.equal(one, other)


def test_what_clients_hand_to_each_other_is_counted_apart():
    record = run(Relay()).records[-1]
    model = small_task().layout.width * 4
    assert record["bytes_down"] == 4 * model
    assert record["bytes_between"] == model
    assert record["bytes_up"] == 4 * (model + 4) + model + 4


def test_what_is_kept_in_one_wave_is_there_in_the_next(tmp_path):
    whole = run(Relay(), rounds=3, out=tmp_path / "whole")
    state = load_checkpoint(tmp_path / "whole", 4)
    assert state is not None
    # before round 3 client 0 has worked four times; in round 3 it works a fifth and a sixth time
    assert state.server["counts"].flatten().tolist() == [4.0, 2.0, 2.0, 2.0, 5.0]
    assert whole.records[-1]["selected"] == [0, 1, 2, 3]


@pytest.mark.parametrize("workers", [1, 2])
def test_steps_and_selected_clients_are_those_of_all_waves(workers):
    record = run(Relay(), workers=workers).records[-1]
    assert record["steps"] == (3 + 1 + 4 + 2) + 3
    assert record["selected"] == [0, 1, 2, 3]


@dataclass(frozen=True)
class Rehearsed(fl.FedAvg):
    """FedAvg that trains everybody once before the first round and starts from the mean."""

    def prelude(self, server: State, context: fl.ServerContext) -> Round:
        replies = yield fl.Wave(context.clients, fl.Message({"row": server["row"]}))
        return {"row": replies.mean("row")}


def test_a_prelude_is_played_once_and_its_costs_are_in_the_first_record():
    history = run(Rehearsed(), rounds=2)
    first = history.records[0]
    model = small_task().layout.width * 4
    assert first["round"] == 0
    assert first["selected"] == []
    assert first["bytes_down"] == first["bytes_up"] == 4 * model
    assert first["steps"] == 3 + 1 + 4 + 2
    plain = run(fl.FedAvg(), rounds=2).records[0]["metrics"]["global_model/global_test/loss"]
    assert first["metrics"]["global_model/global_test/loss"] < plain


def test_a_run_that_was_stopped_after_its_prelude_does_not_play_it_twice(tmp_path):
    run(Rehearsed(), rounds=3, out=tmp_path / "whole")
    run(Rehearsed(), rounds=3, out=tmp_path / "stopped")
    shutil.rmtree(tmp_path / "stopped" / "checkpoints")
    save_start(tmp_path / "stopped")
    (tmp_path / "stopped" / "clients.json").unlink()
    fl.resume(tmp_path / "stopped", task=small_task(), method=Rehearsed())
    for name in ("metrics.jsonl", "checkpoints/round-000003.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes()


@dataclass(frozen=True)
class Pairs(fl.FedAvg):
    """FedAvg whose rounds select pairs of clients."""

    def groups(self, server: State) -> list[list[int]]:
        return [[0, 1], [2, 3]]

    def play(self, server: State, ids: list[int], context: fl.ServerContext) -> Round:
        members = [client for pair in ids for client in self.groups(server)[pair]]
        return (yield from super().play(server, members, context))


def test_a_method_may_be_selected_by_groups():
    for record in run(Pairs(), rounds=6, selection={"number": 1}, eval_every=0).records:
        assert record["selected"] in ([0, 1], [2, 3])


# -- clients that do not answer


@pytest.mark.parametrize(
    "method", [fl.FedAvg(), fl.SCAFFOLD(), fl.FedDyn(), fl.FedRep()], ids=lambda m: type(m).__name__
)
def test_a_round_without_some_answers_is_the_round_of_the_others(tmp_path, method):
    """To the byte, with what clients keep: those who did not answer have kept nothing new."""
    base = prepare_run(small_task(), method, local=WORK, eval_every=0)
    sparse = play_run(base, missing(r2=[1, 3]), tmp_path / "sparse")
    only = replace(base.composition, select=lambda pool: Choice([0, 2] if pool.round == 2 else [0, 1, 2, 3]))
    chosen = play_run(replace(base, composition=only), folder=tmp_path / "chosen")
    assert [record["selected"] for record in sparse.records] == [[0, 1, 2, 3], [0, 2], [0, 1, 2, 3]]
    states = [load_checkpoint(tmp_path / name, 4) for name in ("sparse", "chosen")]
    assert states[0] is not None
    assert states[1] is not None
    for one, other in (
        (states[0].server, states[1].server),
        (states[0].client_states.rows, states[1].client_states.rows),
    ):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert [r["steps"] for r in sparse.records] == [r["steps"] for r in chosen.records]


def test_what_goes_down_is_paid_for_also_where_nothing_comes_back():
    record = play_run(
        prepare_run(small_task(), fl.FedAvg(), local=WORK, rounds=1, eval_every=0), missing(r1=[1, 3])
    ).records[-1]
    model = small_task().layout.width * 4
    assert (record["bytes_down"], record["bytes_up"]) == (4 * model, 2 * model)
    assert record["steps"] == 3 + 4


def test_what_is_measured_is_of_those_who_answered():
    record = play_run(prepare_run(small_task(), fl.FedAvg(), local=WORK, rounds=1), missing(r1=[1, 3])).records[-1]
    alone = prepare_run(small_task(), fl.FedAvg(), local=WORK, rounds=1)
    alone = replace(alone, composition=replace(alone.composition, select=lambda _: Choice([0, 2])))
    wanted = play_run(alone).records[-1]
    assert record["metrics"] == pytest.approx(wanted["metrics"])


def test_clients_who_are_not_scored_are_left_out_of_the_scores():
    run = prepare_run(small_task(), fl.FedAvg(), local=WORK, rounds=1)
    history = play_run(run, lambda job: job.kind == "score" and job.ids[0] == 2)
    assert [row["client"] for row in history.clients] == [0, 1, 3]
    nobody = play_run(run, lambda job: job.kind == "score")
    assert nobody.clients == []
    assert "global_model/global_test/accuracy" in nobody.records[-1]["metrics"]


def test_clients_are_drawn_for_scoring_from_those_who_can_be_reached():
    run = prepare_run(small_task(), fl.FedAvg(), local=WORK, rounds=1, eval_clients=2)
    run = replace(run, composition=replace(run.composition, present=lambda: [1, 3]))
    assert [row["client"] for row in play_run(run).clients] == [1, 3]


def test_others_stand_in_for_the_chosen_who_cannot_be_reached():
    run = prepare_run(small_task(), fl.FedAvg(), local=WORK, rounds=8, eval_every=0, selection={"number": 2})
    usual = [record["selected"] for record in play_run(run).records]
    there = replace(run, composition=replace(run.composition, present=lambda: [1, 2, 3]))
    found = [record["selected"] for record in play_run(there).records]
    assert any(0 in chosen for chosen in usual)
    for chosen, instead in zip(usual, found, strict=True):
        assert len(instead) == 2
        assert 0 not in instead
        assert {client for client in chosen if client} <= set(instead)  # whoever was chosen and is there stays
    everyone = replace(run, composition=replace(run.composition, present=lambda: range(4)))
    assert [record["selected"] for record in play_run(everyone).records] == usual


def test_those_for_whom_nobody_stands_in_are_asked_all_the_same():
    """Whether somebody answers is for the engine to find out, and to say."""
    run = prepare_run(small_task(), fl.FedAvg(), local=WORK, rounds=1, eval_every=0)
    run = replace(run, composition=replace(run.composition, present=lambda: [2]))
    assert play_run(run).records[-1]["selected"] == [0, 1, 2, 3]


# -- the line itself


def stations(method="fedavg", **settings) -> list[str]:
    prepared = prepare_run(small_task(), fl.FedAvg() if method == "fedavg" else method, local=WORK, **settings)
    return [name for name, _, _ in describe_line(prepared.composition)]


@dataclass(frozen=True)
class Curious(fl.Adversary):
    """A server that looks at its clients' replies."""

    def look_at_replies(self, wave, replies):
        return {"clients": float(len(replies.ids))}


def test_a_plain_run_has_three_stations():
    assert stations() == ["Keeping", "ReplyScreening", "Finiteness", "AskRows"]


def test_a_station_is_in_the_line_only_if_the_run_uses_it():
    assert stations(downlink={"precision": "float16"})[0] == "DownlinkCoding"
    assert stations(channel=["topk"])[2:4] == ["Decoding", "Finiteness"]
    assert stations(channel=["securesum"]) == ["Keeping", "AskSum"]
    assert "Silence" in stations(channel=["cmfl"])
    assert "PrivacyBudget" in stations(sample_privacy={"noise": 1.0})
    assert stations(adversary={"name": "signflipping", "clients": [1]}) == stations()  # it acts where its clients are
    assert stations(adversary={"name": "alie", "clients": [0, 1]})[1:3] == ["ReplyScreening", "Collusion"]
    assert stations(adversary=Curious(clients=[1]))[0] == "HostileServer"


def test_every_station_says_what_it_does():
    everything = prepare_run(
        small_task(),
        fl.FedAvg(),
        local=WORK,
        channel=["cmfl", "topk"],
        downlink={"precision": "float16"},
        sample_privacy={"noise": 1.0},
        adversary={"name": "alie", "clients": [0, 1]},
    ).composition
    assert len(line_of(everything)) == 8
    for name, out, back in describe_line(everything):
        assert out or back, name


def test_what_is_refused_late_keeps_nothing():
    """A screen stands inside Keeping: the state of a client that it refuses is not written."""
    names = stations(adversary={"name": "alie", "clients": [0, 1]}, channel=["topk"])
    order = {name: place for place, name in enumerate(names)}
    assert order["Keeping"] < order["ReplyScreening"] < order["Collusion"] < order["Decoding"] < order["Finiteness"]


def test_the_architecture_page_has_every_station_in_the_order_of_the_line():
    page = (DOCS / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `rounds/exchange/\w+\.py` \| (.*?) ?\| (.*?) \|$", page, re.MULTILINE)
    kinds = [*STATIONS, AskRows, AskSum]
    assert rows == [(kind.__name__, kind.out, kind.back) for kind in kinds]


def test_the_line_is_in_the_order_of_the_page():
    source = inspect.getsource(line_of)
    places = [source.index(f" {kind.__name__}(") for kind in STATIONS]
    assert places == sorted(places)
