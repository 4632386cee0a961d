"""One of three sites misbehaves in one round: the round is the simulator's with the other two, to the bit, the reason
is in the record, and the next round takes the site again. No network: messages go through a local transport."""

from __future__ import annotations

import errno
import json
import logging
import math
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from fedloom.config.resolve import resolve, task_from_config
from fedloom.core.aggregator import TOLERATED
from fedloom.core.algorithm import State
from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Statistic
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, needed_facts
from fedloom.core.message import Message, Replies, Reply
from fedloom.deploy.explain import explain
from fedloom.deploy.explanation_text import explanation_lines
from fedloom.deploy.flower.server_transport import ReceivedMessage
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, unpack
from fedloom.deploy.site.state import SiteState
from fedloom.methods.fedavg import FedAvg
from fedloom.registry.kinds import METHODS
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.runs.folder.checkpoint import load_checkpoint
from fedloom.runs.prepare import prepare
from fedloom.runs.results.history import History
from fedloom.runs.runner import execute
from fedloom.runs.start_model import with_start
from fedloom.tasks.graphs.read import save_graph
from support.compositions import spec_of
from support.local_transport import TINY, Local, Plan, Sent, change_answer, quick, simulate, tamper_with
from support.small_graphs import clubs

pytestmark = pytest.mark.usefixtures(quick.__name__)
ALL, BUT_SOUTH, SOUTH, OTHER = [0, 1, 2], [0, 2], 1, 2


@cache
def plan(spec: str = "fedavg") -> Plan:
    return Plan.of(spec)


@cache
def simulate_undisturbed(spec: str = "fedavg") -> History:
    return simulate(plan(spec))


@cache
def without_south(spec: str = "fedavg") -> History:
    """The simulator's run whose second round has the other two clients only."""
    return simulate(plan(spec), {2: BUT_SOUTH})


def same(one: History, other: History) -> bool:
    assert one.row is not None
    assert other.row is not None
    return one.row.numpy().tobytes() == other.row.numpy().tobytes()


def exclusions(history: History) -> list[tuple[int, str, str, str]]:
    """Who was left out, from the file that a run leaves."""
    assert history.folder is not None
    records = [json.loads(line) for line in (history.folder / "metrics.jsonl").read_text().splitlines()]
    return [(r["round"], e["name"], e["what"], e["reason"]) for r in records for e in r.get("excluded", ())]


def check_only_round_two_missed_south(history: History, reason: str, spec: str = "fedavg") -> None:
    """The right number of rounds, the other two's round, one exclusion with its reason, and back in the next round."""
    assert [record["selected"] for record in history.records] == [ALL, BUT_SOUTH, ALL]
    assert same(history, without_south(spec))
    assert not same(history, simulate_undisturbed(spec))
    assert exclusions(history) == [(2, "south", "update", reason)]


def change_tensors(**by: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Sent], bytes]:
    """An answer in which some tensors are others; ``row`` stands for reply/row."""
    names = {"row": "reply/row"}
    return lambda sent: change_answer(
        sent, lambda t: t | {names.get(n, n): change(t[names.get(n, n)]) for n, change in by.items()}
    )


def drop_tensor(name: str) -> Callable[[Sent], bytes]:
    return lambda sent: change_answer(sent, lambda tensors: {n: t for n, t in tensors.items() if n != name})


def with_number(place: int, number: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda row: row.index_fill(1, torch.tensor([place]), number)


def to(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: torch.full_like(tensor, number)


def test_honest_sites_give_the_simulators_bytes(tmp_path):
    history = Local(plan(), tmp_path).play()
    assert same(history, simulate_undisturbed())
    assert history.records == simulate_undisturbed().records
    assert exclusions(history) == []


# -- a channel, an aggregator and an adversary over sites

SEAMS: dict[str, Any] = {
    "aggregation": "median",
    "channel": [{"name": "topk", "fraction": 0.1}],
    "adversary": {"name": "signflipping", "clients": [1]},
}


QUICK = ("fedavg", "scaffold", "fedrep", "ifca", "fedseq")
PARTLY = {
    "fedu": ("channel", "adversary"),
    "heterofl": ("channel", "adversary"),
    "fjord": ("channel", "adversary"),
    **dict.fromkeys(("fedproto", "fld", "fedmd", "dsfl", "fedharm", "fedrcil"), ("aggregation",)),
    **dict.fromkeys(("fdfaug", "fedfmrl"), ()),
}
"""The parts that a method does not refuse (docs/composition.md); all others take all three."""
SERVER_SET = {"server_set": {"share": 0.1}}
MORE_DATA = {"fedca": {"communal": 0.1}, "fedcon": SERVER_SET, "fedlid": SERVER_SET}
"""What some methods need beside clients' samples."""
NORMED = """from torch import nn


def net(inputs, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes))
"""


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in METHODS
        if name not in ("local", "centralised")
    ],
)
def test_a_channel_an_aggregator_and_an_adversary_give_the_simulators_bytes(method, tmp_path):
    seams = {part: SEAMS[part] for part in PARTLY.get(method, SEAMS)}
    seams["task"] = {**TINY["task"], "communal_per_class": 1}
    on_graphs = Fact.GRAPHS in needed_facts(METHODS[method]())
    if on_graphs:
        save_graph(clubs(), tmp_path / "clubs.npz")
        task = {"name": "own-graph", "path": str(tmp_path / "clubs.npz"), "clients": 3, "model_options": {"hidden": 4}}
        seams |= {"task": task, "local": {"epochs": 1, "batch_size": 0, "lr": 0.1}}
    if method in MORE_DATA:
        seams["task"] = {**TINY["task"], **MORE_DATA[method]}
    if Fact.BATCHNORM in needed_facts(METHODS[method]()):
        (tmp_path / "net.py").write_text(NORMED)
        seams["task"] = {"name": "digits", "clients": 3, "seed": 1, "model": f"{tmp_path}/net.py:net"}
    made = Plan.of("fedharm:a=1" if method == "fedharm" else spec_of(method), **seams)  # its model has no stages
    local = Local(made, tmp_path, max_norm=1e6)
    history, expected = local.play(), simulate(made)
    assert exclusions(history) == []
    assert history.records == expected.records
    ends = [load_checkpoint(one.folder, 3) for one in (history, simulate(made, folder=tmp_path / "simulated"))]
    for name, tensor in ends[1].server.items():
        assert torch.equal(ends[0].server[name], tensor), name
    if not on_graphs:  # these fill up anchors with zeros to the most that a client has, uncounted
        assert reply_bytes(local) == history.total("bytes_up")


def test_rules_in_turn_give_the_simulators_bytes(tmp_path):
    made = Plan.of("fedavg", aggregation=["foolsgold", {"name": "multikrum", "share": 0.0}])
    history = Local(made, tmp_path, max_share=1.0).play()
    assert history.records == simulate(made).records
    assert [one["name"] for one in history.config["aggregation"]] == ["foolsgold", "multikrum"]


PRIVATE = {"name": "privatemean", "noise": 2.0, "clip": 0.5, "seeded": True}


def test_a_server_that_is_trusted_adds_the_noise_and_gives_the_simulators_bytes(tmp_path):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    made = Plan.of("fedavg", aggregation=PRIVATE, eval_every=0)
    history = Local(made, tmp_path).play()
    assert torch.equal(history.row, simulate(made).row)
    assert history.records[-1]["metrics"]["privacy/epsilon"] == simulate(made).records[-1]["metrics"]["privacy/epsilon"]


def test_a_site_that_sends_huge_numbers_to_a_private_mean_counts_as_a_clipped_change_and_no_other_does(tmp_path):
    """No bound compares sites, so the huge reply only fills its own part of the sum."""
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    made = Plan.of("fedavg", aggregation={**PRIVATE, "noise": 0.01}, eval_every=0, rounds=1)
    local = Local(made, tmp_path)
    local.transport.meddle = tamper_with(SOUTH, 1, change_tensors(row=lambda row: row * 1e6))
    history = local.play()
    assert exclusions(history) == []
    assert float((history.row - made.blueprint.initial).norm()) < 0.6


def test_scores_of_sites_are_refused_beside_a_private_mean():
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    with pytest.raises(FedloomError, match="privatemean protects what clients send, and not scores"):
        Plan.of("fedavg", aggregation=PRIVATE, eval_every=1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["heterofl", "fjord:alpha=1"])
def test_widths_of_one_network_with_error_feedback_give_the_simulators_bytes(method, tmp_path):
    task = {**TINY["task"], "models": {"mlp:hidden=[8]": [0, 1], "mlp:hidden=[3]": [2]}}
    made = Plan.of(method, task={k: v for k, v in task.items() if k != "model"}, channel=SEAMS["channel"])
    history = Local(made, tmp_path, max_norm=1e6).play()
    assert torch.equal(history.row, simulate(made).row)


@pytest.mark.parametrize(
    "chain", [["topk", "qsgd"], ["sign"], ["lowrank", "halfprecision"], ["svt", "sketch"]], ids="+".join
)
def test_packed_updates_give_the_simulators_bytes(chain, tmp_path):
    made = Plan.of("fedavg", channel=chain, rounds=2)
    local = Local(made, tmp_path)
    history = local.play()
    assert exclusions(history) == []
    assert history.records == simulate(made).records
    assert reply_bytes(local) == history.total("bytes_up")


def reply_bytes(local: Local) -> int:
    """The bytes of all replies, as sites serialised them."""
    answers = [
        unpack(sent.answer, SiteAnswer, 1 << 40)[1] for sent in local.transport.sent if sent.request.kind == "update"
    ]
    return sum(t.nbytes for tensors in answers for name, t in tensors.items() if name.startswith("reply/"))


TOPK = {"channel": [{"name": "topk", "fraction": 0.1}]}
LESS = {"federated_dropout": {"keep": 0.5}}


@pytest.mark.parametrize(
    ("method", "more"), [("fedavg", TOPK), ("scaffold", TOPK), ("fedrep", TOPK), ("fedseq", TOPK), ("fedprox", LESS)]
)
def test_what_goes_down_in_fewer_bytes_gives_the_simulators_numbers(method, more, tmp_path):
    made = Plan.of(spec_of(method), downlink={"precision": "bfloat16"}, **more)
    local = Local(made, tmp_path)
    history, expected = local.play(), simulate(made)
    assert exclusions(history) == []
    assert history.records == expected.records
    requests = [unpack(data, SiteRequest, 1 << 40) for _, data in local.transport.down]
    down = sum(t.nbytes for request, tensors in requests if request.kind == "update" for t in tensors.values())
    assert down == history.total("bytes_down") + history.total("bytes_between")


@pytest.mark.parametrize("method", ["fedavg", "fedrep"])
def test_silent_sites_send_a_flag_and_give_the_simulators_bytes(method, tmp_path):
    steps = [{"name": "cmfl", "threshold": 0.9}, {"name": "topk", "fraction": 0.1}]
    made = Plan.of(method, channel=steps, rounds=4)
    local = Local(made, tmp_path)
    history, expected = local.play(), simulate(made)
    assert exclusions(history) == []
    assert history.records == expected.records
    flags = sum(len(record["selected"]) for record in history.records)
    assert reply_bytes(local) + flags == history.total("bytes_up")
    assert min(record["bytes_up"] for record in history.records) == 3  # three flags


def test_the_same_clients_are_hostile_at_sites_and_in_the_simulation(tmp_path):
    for seed in range(6):
        made = Plan.of(
            "fedavg", seed=seed, new_clients=1, adversary={"name": "signflipping", "fraction": 0.3}, rounds=1
        )
        hostile = made.prepared.composition.hostile
        assert made.runtime.hostile.members == hostile.members
        assert not hostile.members & set(made.prepared.composition.new_clients)
    assert same(Local(made, tmp_path).play(), simulate(made))


def test_the_state_of_an_answer_that_does_not_count_does_not_count_either(tmp_path):
    made = Plan.of("fedavg", channel=[{"name": "topk", "fraction": 0.1}], rounds=2)
    local = Local(made, tmp_path)
    local.transport.meddle = tamper_with(SOUTH, 2, change_answer_of("reply/row", lambda row: row * math.nan))
    kept: list[torch.Tensor] = []
    local.play(after={1: lambda: kept.append(local.state(SOUTH)["channel/0/row/error"])})
    assert torch.equal(local.state(SOUTH)["channel/0/row/error"], kept[0])


@dataclass(frozen=True)
class Fragile(ChannelStep):
    """A step whose decoder fails on a zero, as a user's may."""

    def encode(self, rows: torch.Tensor, sender: Sender) -> tuple[torch.Tensor, Extras]:
        return rows, {"scale": torch.ones(len(rows), 1)}

    def decode(self, rows: torch.Tensor, extras: Extras, width: int) -> torch.Tensor:
        return rows * (1 / float(extras["scale"][0]))


def test_a_decoder_that_fails_costs_one_answer_and_not_the_run(tmp_path):
    made = Plan.of("fedavg")
    broken = replace(made, runtime=replace(made.runtime, steps=(Fragile(),)))
    local = Local(broken, tmp_path)
    local.steps = (Fragile(),)
    local.transport.meddle = tamper_with(SOUTH, 2, change_answer_of("reply/row@0/scale", torch.zeros_like))
    history = local.play()
    assert [record["selected"] for record in history.records] == [ALL, BUT_SOUTH, ALL]
    assert exclusions(history)[0][3].startswith("its reply cannot be decoded (float division by zero)")


def test_a_robust_rule_gives_a_round_up_that_has_too_few_answers_for_it(tmp_path):
    local = Local(Plan.of("fedavg", aggregation="median"), tmp_path, min_clients=1)
    local.transport.meddle = tamper_with(SOUTH, 2, lambda _: None)
    with pytest.raises(FedloomError, match="2 of 3 clients answered, but 3 are needed"):
        local.play()


def test_a_robust_rule_goes_on_without_a_site_that_sends_nan_and_has_one_less_to_withstand(tmp_path):
    """The median of three bears one hostile site; once it is known and gone, that of two need bear none."""
    local = Local(Plan.of("fedavg", aggregation="median"), tmp_path, min_clients=1, retries=0)
    local.transport.meddle = tamper_with(SOUTH, 2, change_tensors(row=with_number(3, math.nan)))
    history = local.play()
    assert [record["selected"] for record in history.records] == [ALL, BUT_SOUTH, ALL]
    assert [record["metrics"].get(TOLERATED) for record in history.records] == [None, 0, None]
    assert exclusions(history) == [(2, "south", "update", "reply/row has numbers that are not finite")]


def test_a_site_that_sent_nan_and_is_then_silent_is_not_known_to_be_hostile_any_more(tmp_path):
    local = Local(Plan.of("fedavg", aggregation="median"), tmp_path, min_clients=3, retries=1)
    tries: list[Sent] = []

    def meddle(sent: Sent) -> Any:
        tries.append(sent)
        return change_tensors(row=with_number(3, math.nan))(sent) if len(tries) == 1 else None

    local.transport.meddle = tamper_with(SOUTH, 2, meddle)
    with pytest.raises(FedloomError, match="2 of 3 clients answered, but 3 are needed"):
        local.play()
    assert len(tries) == 2
    assert local.engine is not None
    assert local.engine.broken == set()


def test_models_go_down_as_differences_and_a_site_that_lost_its_own_gets_the_whole(tmp_path):
    made = Plan.of("fedavg", downlink={"delta": True}, rounds=4)
    local = Local(made, tmp_path / "sites")
    deployed, simulated = local.play(), simulate(made)
    assert torch.equal(deployed.row, simulated.row)
    assert deployed.records == simulated.records
    forgetful = Local(made, tmp_path / "forgetful")
    kept = tmp_path / "forgetful" / "south" / "kept"
    history = forgetful.play(after={2: lambda: [path.unlink() for path in kept.iterdir()]})
    assert [record["selected"] for record in history.records] == [ALL, ALL, BUT_SOUTH, ALL]
    assert history.records[3]["bytes_down"] > history.records[1]["bytes_down"]


def test_counted_bytes_up_are_those_that_sites_serialise(tmp_path):
    local = Local(Plan.of("fedavg", **SEAMS), tmp_path)
    history = local.play()
    assert reply_bytes(local) == history.total("bytes_up") == 3 * 3 * 8 * math.ceil(0.1 * WIDTH)


def test_what_a_site_could_not_send_stays_at_the_site_and_survives_its_death(tmp_path):
    made = Plan.of("fedavg", channel=[{"name": "topk", "fraction": 0.1}])
    local = Local(made, tmp_path)

    def restart() -> None:
        local.sites[SOUTH] = local.site(SOUTH)

    history = local.play(after={1: restart, 2: restart})
    assert same(history, simulate(made))
    assert local.state(SOUTH)["channel/0/row/error"].abs().sum() > 0


@dataclass(frozen=True)
class Renamed(FedAvg):
    """FedAvg that replies under a name nobody has seen."""

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        row = message["row"]
        return Reply({"glimmer": super().client_update(cohort, message).tensors["row"] - row})

    def aggregate(self, server: State, replies: Replies) -> State:
        return {**server, "row": server["row"] + replies.mean("glimmer")}


def declared(method: FedAvg, *names: str) -> FedAvg:
    """The method as a site has it, which sends only what is declared; the server's copy declares nothing of it."""
    object.__setattr__(method, "sends", {name: Statistic(name) for name in names})
    return method


def test_a_reply_under_an_unknown_name_is_counted_checked_bounded_and_explained(tmp_path):
    made = Plan.of("fedavg")
    run = prepare(made.prepared.composition.task, Renamed(), made.blueprint.config)
    assert execute(run).records[-1]["bytes_up"] == 3 * 4 * WIDTH
    text = "\n".join(explanation_lines(explain(run)))
    assert "a tensor that the method defines, named glimmer" in text
    renamed = replace(made, prepared=run, runtime=replace(made.runtime, algorithm=declared(Renamed(), "glimmer")))
    local = Local(renamed, tmp_path, max_norm=5.0)
    local.method = Renamed()
    far = change_answer_of("reply/glimmer", lambda tensor: tensor + 1.0)
    local.transport.meddle = tamper_with(SOUTH, 2, far)
    history = local.play()
    reason = exclusions(history)[0][3]
    assert [record["selected"] for record in history.records] == [ALL, BUT_SOUTH, ALL]
    assert reason.startswith("reply/glimmer moved by")


@dataclass(frozen=True)
class OtherShapes(Renamed):
    """A method whose replies have names of what it received, with other types and shapes."""

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({"row": server["row"], "mask": torch.ones(5, dtype=torch.bool), "tag": torch.zeros(4)})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        glimmer = super().client_update(cohort, message).tensors
        return Reply(
            {**glimmer, "mask": torch.ones(len(cohort), 5, dtype=torch.bool), "tag": torch.ones(len(cohort), 7)}
        )


def test_replies_that_are_no_change_of_what_has_their_name_pass_a_norm_bound(tmp_path):
    made = Plan.of("fedavg", rounds=1)
    sent = declared(OtherShapes(), "glimmer", "mask", "tag")
    other = replace(made, runtime=replace(made.runtime, algorithm=sent))
    local = Local(other, tmp_path, max_norm=5.0)
    local.method = OtherShapes()
    assert exclusions(local.play()) == []


def change_answer_of(name: str, by: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Sent], bytes]:
    return lambda sent: change_answer(sent, lambda tensors: tensors | {name: by(tensors[name])})


# -- what arrives and is not taken (faults 11, 12, 13, 15, 17, 19, 20, 21)


WIDTH = 64 * 8 + 8 + 8 * 10 + 10
SAMPLES = 334


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(
            change_tensors(row=with_number(3, math.nan)), "reply/row has numbers that are not finite", id="nan"
        ),
        pytest.param(
            change_tensors(row=with_number(3, -math.inf)), "reply/row has numbers that are not finite", id="infinity"
        ),
        pytest.param(change_tensors(row=lambda row: row * 1e33), "reply/row has numbers larger than 1e+30", id="1e30"),
        pytest.param(
            change_tensors(row=lambda row: row[:, 1:]),
            f"reply/row has the shape [1, {WIDTH - 1}] instead of [1, {WIDTH}]",
            id="shape",
        ),
        pytest.param(change_tensors(row=torch.Tensor.double), "reply/row is float64 instead of float32", id="dtype"),
        pytest.param(drop_tensor("reply/row"), "reply/row is missing", id="missing tensor"),
        pytest.param(drop_tensor("samples"), "samples is missing", id="missing count"),
        pytest.param(
            lambda sent: change_answer(sent, lambda tensors: tensors | {"reply/gift": torch.ones(1)}),
            "reply/gift is not part of the expected reply",
            id="extra tensor",
        ),
        pytest.param(
            lambda sent: change_answer(sent, lambda tensors: tensors | {"kept/c": torch.ones(1)}),
            "kept/c is not part of the expected reply",
            id="state that stays at sites",
        ),
        pytest.param(
            change_tensors(samples=to(10**15)),
            "samples is 1,000,000,000,000,000; it must be between 1 and 1,000,000,000",
            id="1e15 samples",
        ),
        pytest.param(
            change_tensors(samples=to(-19)), "samples is -19; it must be between 1 and 1,000,000,000", id="-19 samples"
        ),
        pytest.param(
            change_tensors(samples=to(0)), "samples is 0; it must be between 1 and 1,000,000,000", id="no samples"
        ),
        pytest.param(
            change_tensors(samples=lambda samples: samples + 1),
            f"samples is {SAMPLES + 1}, but the site announced {SAMPLES}",
            id="other samples than announced",
        ),
        pytest.param(change_tensors(steps=to(-1)), "steps must be between 0 and 80", id="steps"),
        pytest.param(lambda sent: change_answer(sent, round=1), "it answers another round", id="wrong round"),
        pytest.param(lambda sent: change_answer(sent, run="other"), "it answers another run", id="wrong run"),
        pytest.param(
            lambda sent: change_answer(sent, ticket="0" * 32),
            "it answers another request (of an old round, or replayed)",
            id="wrong ticket",
        ),
        pytest.param(
            lambda sent: change_answer(sent, client=0), "it answers for another client", id="in another's name"
        ),
        pytest.param(
            lambda sent: ReceivedMessage(sent.name, 2, sent.answer),
            "another site answered in its name",
            id="by another node",
        ),
        pytest.param(
            lambda sent: ReceivedMessage(sent.name, sent.node, error="killed\nby the system"),
            "lost its connection (killed by the system)",
            id="flower's own error",
        ),
        pytest.param(lambda _: b"", "the message has only 0 bytes and no header", id="no bytes"),
        pytest.param(lambda sent: sent.answer[:-3], None, id="torn"),  # the reason has the numbers of bytes
        pytest.param(
            lambda _: bytes(range(256)) * 9, "the header claims an impossible length of 50,462,976 bytes", id="garbage"
        ),
    ],
)
def test_what_does_not_fit_is_dropped_and_said(tmp_path, answer, reason):
    local = Local(plan(), tmp_path)
    local.transport.meddle = tamper_with(SOUTH, 2, answer)
    history = local.play()
    if reason is None:
        reason = exclusions(history)[0][3]
        assert "bytes" in reason
    check_only_round_two_missed_south(history, reason)


class Bomb:
    """Its pickle, when loaded, ends the process."""

    def __reduce__(self):
        return (exec, ("import os; os._exit(99)",))


def test_a_pickle_is_refused_and_never_loaded(tmp_path):
    local = Local(plan(), tmp_path)
    local.transport.meddle = tamper_with(SOUTH, 2, lambda _: pickle.dumps(Bomb()))
    history = local.play()
    check_only_round_two_missed_south(history, exclusions(history)[0][3])
    assert "the header" in exclusions(history)[0][3]


def test_more_bytes_than_allowed_are_not_even_looked_at(tmp_path):
    local = Local(plan(), tmp_path, max_megabytes=0.01)
    local.transport.meddle = tamper_with(SOUTH, 2, lambda sent: sent.answer + bytes(20_000))
    history = local.play()
    size = len(next(s for s in local.transport.sent if (s.node, s.request.round) == (SOUTH, 2)).answer) + 20_000
    check_only_round_two_missed_south(history, f"the message has {size:,} bytes, and at most 10,000 are allowed")


def test_a_model_that_moved_too_far_is_dropped(tmp_path):
    local = Local(plan(), tmp_path, max_norm=50.0)
    local.transport.meddle = tamper_with(SOUTH, 2, change_tensors(row=lambda row: row + 1e3))
    history = local.play()
    moved = 1e3 * math.sqrt(WIDTH)
    assert exclusions(history)[0][3].endswith("; at most 50 is allowed (max_norm)")
    assert float(exclusions(history)[0][3].split()[3].rstrip(";")) == pytest.approx(moved, rel=0.01)
    check_only_round_two_missed_south(history, exclusions(history)[0][3])


# -- old, second and late answers (faults 4, 23, 24, 25)


def test_a_replay_of_last_rounds_update_is_refused(tmp_path):
    local = Local(plan(), tmp_path)

    def replay(_: Sent) -> bytes:
        return next(
            s.answer for s in local.transport.sent if (s.node, s.request.round, s.request.kind) == (1, 1, "update")
        )

    local.transport.meddle = tamper_with(SOUTH, 2, replay)
    check_only_round_two_missed_south(local.play(), "it answers another request (of an old round, or replayed)")


def test_another_sites_update_of_the_same_round_does_not_pass_for_its_own(tmp_path):
    local = Local(plan(), tmp_path)

    def copy_neighbour(_: Sent) -> bytes:
        return next(
            s.answer for s in local.transport.sent if (s.node, s.request.round, s.request.kind) == (0, 2, "update")
        )

    local.transport.meddle = tamper_with(SOUTH, 2, copy_neighbour)
    check_only_round_two_missed_south(local.play(), "it answers another request (of an old round, or replayed)")


def test_of_two_answers_the_first_counts(tmp_path, caplog):
    local = Local(plan(), tmp_path)
    other = change_tensors(row=lambda row: row + 1)
    local.transport.meddle = tamper_with(SOUTH, 2, lambda sent: [sent.answer, other(sent)])
    history = local.play()
    assert same(history, simulate_undisturbed())
    assert "dropped an answer to an unknown request" in caplog.text


def test_silence_ends_with_the_deadline(tmp_path):
    local = Local(plan(), tmp_path, deadline=0.2)
    local.transport.meddle = tamper_with(SOUTH, 2, lambda _: None)
    check_only_round_two_missed_south(local.play(), "no answer within 0.2 s")


def test_a_late_answer_is_dropped_in_the_next_round_and_said(tmp_path):
    local = Local(plan(), tmp_path, deadline=0.2)
    late: list[Sent] = []
    local.transport.meddle = tamper_with(SOUTH, 2, lambda sent: late.append(sent))
    history = local.play(after={2: lambda: local.transport.arrive(late[0], late[0].answer)})
    assert same(history, without_south())
    assert [record["selected"] for record in history.records] == [ALL, BUT_SOUTH, ALL]
    assert exclusions(history) == [
        (2, "south", "update", "no answer within 0.2 s"),
        (3, "south", "update", "answer to round 2 came too late"),
    ]


# -- failures at a site (faults 1, 3, 9)


@dataclass(frozen=True)
class Failing(ClientRuntime):
    """A client's half whose second round goes wrong."""

    raises: Exception | None = None

    def do(self, job: Any, message: Any, kept: Any) -> Any:
        if job.round == 2 and job.kind == "update" and self.raises is not None:
            raise self.raises
        return super().do(job, message, kept)


def failing_runtime(runtime: ClientRuntime, raises: Exception) -> Failing:
    return Failing(
        runtime.algorithm,
        runtime.training,
        runtime.scoring,
        runtime.setting,
        runtime.stages,
        runtime.clients_on_global,
        raises=raises,
    )


def test_an_error_in_client_code_is_counted_and_its_text_stays_at_the_site(tmp_path):
    local = Local(plan(), tmp_path)
    runtime = failing_runtime(plan().runtime, ValueError("patient 4711 has no age"))
    local.sites[SOUTH] = replace(local.sites[SOUTH], runtime=runtime)
    check_only_round_two_missed_south(
        local.play(), "the site reports an error: ValueError in the client's code (see the site's log)"
    )
    assert all(b"4711" not in sent.answer for sent in local.transport.sent)


def test_a_sentence_for_people_comes_through(tmp_path):
    local = Local(plan(), tmp_path)
    local.sites[SOUTH] = replace(
        local.sites[SOUTH], runtime=failing_runtime(plan().runtime, FedloomError("no such column"))
    )
    check_only_round_two_missed_south(local.play(), "the site reports an error: no such column")


class FullDisk(SiteState):
    """A disk that is full at the second state."""

    count = 0

    def write(self, ticket: str, state: Any) -> None:
        self.count += 1
        if self.count == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(ticket, state)


def test_a_full_disk_costs_a_site_its_round_and_not_its_state(tmp_path):
    local = Local(plan("scaffold"), tmp_path)
    local.sites[SOUTH] = replace(local.sites[SOUTH], states=FullDisk(local.sites[SOUTH].states.folder))
    reason = "the site reports an error: disk error at the site: No space left on device"
    check_only_round_two_missed_south(local.play(), reason, "scaffold")


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "feddyn"])
def test_a_site_that_is_not_connected_is_left_out_until_it_is_back(tmp_path, spec):
    """Also where a method's server reckons with all clients: who is away for a while is still one of them."""
    local = Local(plan(spec), tmp_path)
    away = local.transport.away
    history = local.play(after={1: lambda: away.add(SOUTH), 2: lambda: away.discard(SOUTH)})
    check_only_round_two_missed_south(history, "not connected", spec)


def test_a_site_that_vanishes_during_its_work_is_not_waited_for(tmp_path):
    local = Local(plan(), tmp_path, deadline=600.0, reconnect_timeout=0.0)
    local.transport.meddle = tamper_with(SOUTH, 2, lambda _: local.transport.away.add(SOUTH))
    history = local.play(after={2: lambda: local.transport.away.discard(SOUTH)})
    check_only_round_two_missed_south(history, "lost its connection")


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fedrep"])
def test_a_site_that_restarts_during_its_work_does_it_again_to_the_same_bytes(tmp_path, spec):
    local = Local(plan(spec), tmp_path, deadline=30.0)
    lost: list[Sent] = []

    def restart(sent: Sent) -> bytes | None:
        """Its first answer is lost with its SuperNode; its process starts again over the same disk."""
        if lost:
            return sent.answer
        lost.append(sent)
        local.sites[SOUTH] = local.site(SOUTH)
        local.transport.since[SOUTH] = time.time() + 0.01
        return None

    local.transport.meddle = tamper_with(SOUTH, 2, restart)
    history = local.play()
    assert same(history, simulate_undisturbed(spec))
    assert history.records == simulate_undisturbed(spec).records
    updates = [s.request for s in local.transport.sent if (s.node, s.request.round, s.request.kind) == (1, 2, "update")]
    assert len(updates) == 2
    assert updates[0] == updates[1]


def test_a_site_that_restarts_slowly_keeps_its_work_while_others_are_at_theirs(tmp_path, monkeypatch):
    """It is away for far longer than ``reconnect_timeout``, and back before the last of the others has answered."""
    local = Local(plan(), tmp_path, deadline=600.0, reconnect_timeout=0.0)
    transport, honest = local.transport, local.transport.nodes
    asked: list[Sent] = []
    slow: list[Sent] = []
    checks: list[int] = []

    def nodes():
        if SOUTH in transport.away:
            checks.append(1)
        if len(checks) == 30:
            transport.away.discard(SOUTH)
            transport.since[SOUTH] = time.time() + 0.01
        return honest()

    def meddle(sent: Sent) -> Any:
        if (sent.request.round, sent.request.kind) != (2, "update") or sent.node not in (SOUTH, OTHER):
            return sent.answer
        if sent.node == OTHER:
            slow.append(sent)
            return None
        asked.append(sent)
        if len(asked) == 1:
            transport.away.add(SOUTH)
            return None
        transport.arrive(slow[0], slow[0].answer)  # the others are done, and so is it
        return sent.answer

    monkeypatch.setattr(transport, "nodes", nodes)
    transport.meddle = meddle
    assert same(local.play(), simulate_undisturbed("fedavg"))
    assert len(asked) == 2


def test_a_site_that_restarts_all_the_time_is_given_up_for_the_round(tmp_path):
    local = Local(plan(), tmp_path, deadline=30.0)

    def restart(_: Sent) -> None:
        local.transport.since[SOUTH] = time.time() + 0.01

    local.transport.meddle = tamper_with(SOUTH, 2, restart)
    check_only_round_two_missed_south(local.play(), "restarted 3 times")


def test_a_site_whose_connection_was_cut_is_asked_again_and_its_first_answer_counts(tmp_path):
    """Its node is taken for restarted, since the server had lost sight of it; the work is not wasted."""
    local = Local(plan(), tmp_path, deadline=30.0)
    cut: list[Sent] = []

    def late(sent: Sent) -> bytes | None:
        cut.append(sent)
        if len(cut) == 2:  # asked again: now the first message's answer comes in, and the second's never
            local.transport.arrive(cut[0], cut[0].answer)
        local.transport.since[SOUTH] = time.time() + 0.01 if len(cut) == 1 else local.transport.since[SOUTH]
        return None

    local.transport.meddle = tamper_with(SOUTH, 2, late)
    assert same(local.play(), simulate_undisturbed("fedavg"))
    assert len(cut) == 2


# -- kept state


@pytest.mark.parametrize("spec", ["scaffold", "fedrep"])
def test_an_answer_that_was_dropped_does_not_advance_a_sites_state(tmp_path, spec):
    local = Local(plan(spec), tmp_path)
    states: list[dict[str, torch.Tensor]] = []
    local.transport.meddle = tamper_with(SOUTH, 2, lambda sent: change_answer(sent, round=1))
    note = {number: lambda: states.append(local.state(SOUTH)) for number in (1, 2, 3)}
    check_only_round_two_missed_south(local.play(after=note), "it answers another round", spec)
    first, second, third = states
    assert first.keys() == second.keys() != set()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(second[name], third[name]) for name in second)


@pytest.mark.parametrize("spec", ["scaffold", "fedrep"])
def test_what_sites_keep_is_what_the_simulator_keeps(tmp_path, spec):
    local = Local(plan(spec), tmp_path)
    local.play()
    simulate(plan(spec), folder=tmp_path / "simulated")
    state = load_checkpoint(tmp_path / "simulated", 3)
    assert state is not None
    for client in ALL:
        own = local.state(client)
        assert own.keys() == state.client_states.rows.keys() != set()
        for name, rows in state.client_states.rows.items():
            assert torch.equal(own[name], rows[client : client + 1])


def test_a_site_keeps_at_most_three_states_on_its_disk(tmp_path):
    local = Local(plan("scaffold"), tmp_path)
    most: list[int] = []
    local.play(after={number: lambda: most.append(len(local.state_files(SOUTH))) for number in (1, 2, 3)})
    assert most == [2, 4, 4]  # two copies each: the last finished round's, and the new one


def test_a_site_that_lost_its_state_says_so_and_begins_anew(tmp_path):
    local = Local(plan("scaffold"), tmp_path)

    def burn() -> None:
        for path in (tmp_path / "south" / "kept").iterdir():
            path.unlink()

    states: list[dict[str, torch.Tensor]] = []
    history = local.play(after={1: burn, 2: lambda: states.append(local.state(SOUTH))})
    reason = "the site reports an error: the client state of this site is lost: it starts again without one"
    assert exclusions(history) == [(2, "south", "update", reason)]
    assert [record["selected"] for record in history.records] == [ALL, BUT_SOUTH, ALL]
    assert states == [{}]
    assert local.state(SOUTH).keys() == {"c"}
    asked = [s.request for s in local.transport.sent if (s.node, s.request.round, s.request.kind) == (1, 3, "update")]
    assert [(request.state, request.base) for request in asked] == [("", "")]


# -- logs (fault 46)


def test_no_log_line_and_no_record_has_a_ticket_or_data(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    local = Local(plan("scaffold"), tmp_path)
    local.transport.meddle = tamper_with(SOUTH, 2, change_tensors(samples=to(-19)))
    local.sites[0] = replace(
        local.sites[0], runtime=failing_runtime(plan("scaffold").runtime, ZeroDivisionError("47110815"))
    )
    local.play()
    text = caplog.text + (tmp_path / "run" / "metrics.jsonl").read_text()
    assert "is left out of 'update'" in text
    assert "47110815" not in (tmp_path / "run" / "metrics.jsonl").read_text()  # an error may quote data
    tickets = {sent.request.ticket for sent in local.transport.sent}
    assert len(tickets) > 10
    assert not [ticket for ticket in tickets if ticket in text]
    for sent in local.transport.sent:
        if sent.request.kind == "update":
            sends = unpack(sent.answer, SiteAnswer, 1 << 40)[1].get("reply/change", torch.zeros(1))
            assert str(sends.flatten()[0].item())[:8] not in text or not sends.any()


def test_every_request_has_a_ticket_of_its_own(tmp_path):
    local = Local(plan(), tmp_path)
    local.play()
    tickets = [unpack(data, SiteRequest, 1 << 40)[0].ticket for _, data in local.transport.down]
    assert len(set(tickets)) == len(tickets) == 3 + 9
    assert {len(ticket) for ticket in tickets} == {32}


def test_what_passed_on_the_wire_is_counted(tmp_path):
    local = Local(plan(), tmp_path)
    local.play()
    assert local.engine is not None
    updates = [s for s in local.transport.sent if s.request.kind == "update"]
    down = sum(len(data) for _, data in local.transport.down[3:])
    assert local.engine.pending.wire == {
        "messages": 9, "bytes_down": down, "bytes_up": sum(len(sent.answer) for sent in updates)
    }  # fmt: skip


def test_low_rank_adapters_train_at_sites_as_in_the_simulation(tmp_path):
    task = {**TINY["task"], "adapters": {"rank": 2}}  # type: ignore[dict-item]
    made = Plan.of("fedavg", task=task, eval_every=1)
    history, expected = Local(made, tmp_path).play(), simulate(made)
    assert exclusions(history) == []
    assert [r["metrics"] for r in history.records] == [r["metrics"] for r in expected.records]
    assert history.total("bytes_up") == 3 * 3 * 4 * 2 * (64 + 8 + 8 + 10)


def test_a_run_starts_from_a_deployed_one_with_what_its_plan_has_frozen(tmp_path):
    task = {**TINY["task"], "frozen": ["1.*"]}  # type: ignore[dict-item]
    plain = task_from_config(resolve({**TINY, "method": {"name": "fedavg"}, "task": task}))
    weights = {name: tensor + 0.01 for name, tensor in plain.model.state_dict().items()}
    save_file(weights, tmp_path / "weights.safetensors")
    made = Plan.of("fedavg", task=task, start_from=str(tmp_path / "weights.safetensors"))
    history = Local(made, tmp_path / "server").play()
    made.blueprint.save(tmp_path / "server", server=True)
    started = with_start(plain, str(tmp_path / "server/run")).model
    assert torch.equal(started[1].weight, weights["1.weight"])
    assert torch.equal(plain.layout.row(started), history.row)


# -- metrics


def metric_plan(spec: str = "fedavg", metrics: Any = ("macro_f1", "auc")) -> Plan:
    task = {**TINY["task"], "metrics": list(metrics)}  # type: ignore[dict-item]
    return Plan.of(spec, task=task, eval_every=1)


@pytest.mark.parametrize("spec", ["fedavg", "fedper", "fedavg+finetune"])
def test_metrics_over_sites_are_the_simulators(spec, tmp_path):
    made = metric_plan(spec)
    history, expected = Local(made, tmp_path).play(), simulate(made)
    assert exclusions(history) == []
    assert [r["metrics"] for r in history.records] == [r["metrics"] for r in expected.records]
    assert history.clients == expected.clients
    assert "client_model/own_test/macro_f1/pooled" in history.records[-1]["metrics"]
    assert (history.score.name, expected.score.name) == ("macro_f1", "macro_f1")


def test_a_server_that_is_killed_goes_on_to_the_same_metrics(tmp_path):
    made = metric_plan()
    whole = Local(made, tmp_path / "whole").play()

    def kill() -> None:
        raise KeyboardInterrupt

    local = Local(made, tmp_path / "killed")
    with pytest.raises(KeyboardInterrupt):
        local.play({2: kill})
    local.play()
    for name in ("metrics.jsonl", "clients.json"):
        assert (local.run / name).read_bytes() == (whole.folder / name).read_bytes()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda sums: sums[:, :-1], "metric/macro_f1 has the shape [1, 29] instead of [1, 30]"),
        (lambda sums: sums.float(), "metric/macro_f1 is float32 instead of float64"),
        (lambda sums: sums * math.nan, "metric/macro_f1 has numbers that are not finite"),
        (lambda sums: sums + 1e300, "metric/macro_f1 has numbers larger than 1e+30"),
        (None, "metric/macro_f1 is missing"),
    ],
)
def test_sums_of_a_metric_are_checked_on_arrival(change, reason, tmp_path):
    def spoil(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        sums = tensors.pop("metric/macro_f1")
        return tensors if change is None else {**tensors, "metric/macro_f1": change(sums)}

    local = Local(metric_plan(metrics=["macro_f1"]), tmp_path)
    local.transport.meddle = tamper_with(SOUTH, 2, lambda sent: change_answer(sent, spoil), "score")
    history = local.play()
    assert exclusions(history) == [(2, "south", "score", reason)]
    assert "client_model/own_test/macro_f1/pooled" in history.records[2]["metrics"]


@cache
def validated_plan(spec: str) -> Plan:
    task = {**TINY["task"], "metrics": ["macro_f1", "auc"], "valid_share": 0.2}  # type: ignore[dict-item]
    return Plan.of(spec, task=task, eval_every=1)


@pytest.mark.parametrize("spec", ["fedavg", "fedper"])
def test_sites_measure_on_their_own_validation_parts_as_the_simulator_does(spec, tmp_path):
    history, expected = Local(validated_plan(spec), tmp_path).play(), simulate(validated_plan(spec))
    assert exclusions(history) == []
    assert [r["metrics"] for r in history.records] == [r["metrics"] for r in expected.records]
    assert history.clients == expected.clients
    assert "client_model/own_validation/auc/pooled" in history.records[-1]["metrics"]
    assert all(row["validation_macro_f1"] is not None for row in history.clients)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("valid/counts", lambda sums: sums * 0, "valid/loss has a sum where valid/counts is 0"),
        ("valid/loss", lambda sums: sums.float(), "valid/loss is float32 instead of float64"),
        ("valid/metric/auc", lambda sums: sums * math.nan, "valid/metric/auc has numbers that are not finite"),
    ],
)
def test_what_sites_measure_on_validation_parts_is_checked_on_arrival(name, change, reason, tmp_path):
    local = Local(validated_plan("fedavg"), tmp_path)
    local.transport.meddle = tamper_with(SOUTH, 2, change_answer_of(name, change), "score")
    history = local.play()
    assert exclusions(history) == [(2, "south", "score", reason)]
    assert "client_model/own_validation/macro_f1/pooled" in history.records[2]["metrics"]


def test_what_is_measured_on_validation_parts_is_explained():
    text = "\n".join(explanation_lines(explain(validated_plan("fedavg").prepared)))
    assert "sums that macro_f1 is made of, own validation part" in text
    assert "its model's summed loss, own validation part" in text


def test_a_metric_is_explained():
    text = "\n".join(explanation_lines(explain(metric_plan().prepared)))
    assert "sums that macro_f1 is made of, own test part" in text
    assert "trained model's auc, own test part" in text


def test_a_user_defined_metric_goes_to_every_site_with_its_file(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nimport torch, fedloom as fl\n\n"
        "@dataclass(frozen=True)\nclass Hits(fl.Metric):\n    times: float = 1.0\n\n"
        "    def sums(self, outputs, targets):\n"
        "        hits = (outputs.argmax(1) == targets).sum()\n"
        "        return torch.stack([self.times * hits, torch.tensor(float(len(targets)))])\n"
    )
    made = metric_plan(metrics=[{"name": f"{tmp_path / 'mine.py'}:Hits", "times": 2.0}])
    made.blueprint.save(tmp_path / "site", server=False)
    assert (tmp_path / "site" / "mine.py").read_text() == (tmp_path / "mine.py").read_text()
    assert '"mine.py:Hits"' in (tmp_path / "site" / "config.toml").read_text()
    (metric,) = Blueprint.load(tmp_path / "site").config.task.metrics
    assert metric == {"name": f"{tmp_path / 'site' / 'mine.py'}:Hits", "times": 2.0}
    history = Local(made, tmp_path).play()
    mean = history.last("client_model/own_test/accuracy/mean")
    assert mean is not None
    assert history.last("client_model/own_test/hits/mean") == pytest.approx(2 * mean)


def test_a_users_model_goes_to_every_site_with_its_file(tmp_path):
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\n"
        "def net(inputs, classes, width=8):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, classes))\n"
    )
    task = {**TINY["task"], "model": f"{tmp_path / 'net.py'}:net:width=5", "model_options": {}}  # type: ignore[dict-item]
    made = Plan.of("fedavg", task=task)
    history, expected = Local(made, tmp_path / "run").play(), simulate(made)
    assert exclusions(history) == []
    assert same(history, expected)


OWN_TRAINING = """
import torch


class Slower(torch.optim.Adamax):
    pass


def rate(round, step, steps):
    return (1 - 0.5 * step / steps) / round
"""


def test_optimisers_and_schedules_of_the_users_own_give_the_simulators_bytes(tmp_path):
    (tmp_path / "mine.py").write_text(OWN_TRAINING)
    own = {"optimizer": f"{tmp_path / 'mine.py'}:Slower", "schedule": f"{tmp_path / 'mine.py'}:rate", "lr": 0.01}
    server = {"kind": "yogi", "schedule": "exponential", "lr_decay": 0.5, "warmup": 1}
    for local in (own, {"optimizer": "adamw", "lr": 0.01, "accumulate": 2, "batch_size": 4, "warmup": 2}):
        made = Plan.of("fedavg", local=local, server_optimizer=server)
        history, expected = Local(made, tmp_path / local["optimizer"][-6:], max_norm=1e6).play(), simulate(made)
        assert exclusions(history) == []
        assert history.records == expected.records
        assert same(history, expected)
