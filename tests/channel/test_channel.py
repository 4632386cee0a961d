"""The channel of a run: steps in order, exact bytes, and replies that are what they were."""

from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import save

import fedloom as fl
from fedloom.channel.channel import Channel
from fedloom.channel.topk import TopK
from fedloom.config.resolve import resolve
from fedloom.core.channel_step import ChannelStep
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, Reply
from fedloom.engines.inline import Inline
from fedloom.registry.kinds import CHANNEL_STEPS, METHODS
from fedloom.rounds.jobs import Job
from fedloom.rounds.loop import play_prelude, play_round
from fedloom.rounds.run_state import initial_state
from fedloom.runs.prepare import prepare

NAMES = ["fedavg", "scaffold", "fedrep", "lgfedavg", "ifca", "fedsgd", "feddyn", "fedhybridavglg:threshold=100"]


@dataclass(frozen=True)
class Halves(ChannelStep):
    """Sends half of each number as a half-precision float."""

    def encode(self, rows, sender):
        return (rows / 2).half(), {}

    def decode(self, rows, extras, width):
        return rows.float() * 2


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4, alpha=1.0)


@pytest.mark.parametrize("method", NAMES)
def test_without_loss_a_channel_changes_nothing_but_rounding(task, method):
    plain = fl.run(task, method, rounds=2)
    sent = fl.run(task, method, rounds=2, channel=[TopK(1.0, error_feedback=False)])
    for name, value in plain.records[-1]["metrics"].items():
        assert sent.records[-1]["metrics"][name] == pytest.approx(value, abs=2e-3), name


CHAINS = [
    *([name] for name in CHANNEL_STEPS if name not in ("cmfl", "localnoise")),
    ["topk", "qsgd"],
    ["sketch", "qsgd"],
    ["percentile", "topk", "halfprecision"],
]


@pytest.mark.parametrize(("method", "chain"), [*((m, ["topk"]) for m in NAMES), *(("fedavg", c) for c in CHAINS)])
def test_counted_bytes_are_the_bytes_of_the_tensors(task, method, chain):
    run = prepare(task, METHODS.make(method), resolve({"channel": chain, "method": method})).composition
    server = run.algorithm.start(task)
    for wave in [run.algorithm.prelude(server, run.context(0))] if method == "ifca" else []:
        server = {**server, **_end_of(wave)}
    result = run.runtime().do(Job("update", 1, [2], [0]), run.algorithm.broadcast(server, [2]), {})
    reply = {name: tensor.contiguous() for name, tensor in result.items() if name.startswith("reply/")}
    assert int(result["bytes"]) == sum(tensor.nbytes for tensor in reply.values())
    header = int.from_bytes(save(reply)[:8], "little") + 8
    assert int(result["bytes"]) == len(save(reply)) - header


@pytest.mark.parametrize("chain", CHAINS, ids="+".join)
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_an_update_that_is_not_finite_cannot_hide_behind_a_step(task, chain, number):
    run = prepare(task, fl.FedAvg(), resolve({"channel": chain})).composition
    cohort, message = Cohort([0, 1], run.trainer, run.setting, 1), Message({"row": torch.zeros(task.layout.width)})
    rows = torch.randn(2, task.layout.width, generator=torch.Generator().manual_seed(0))
    rows[1, 5] = number
    sent = run.channel.encode(Reply({"row": rows}), message, cohort).tensors
    finite = [tensor.flatten(1).isfinite().all(1) for tensor in sent.values() if tensor.is_floating_point()]
    assert torch.stack(finite).all(0).tolist() == [True, False]


def test_whole_numbers_alone_cannot_tell_that_an_update_is_not_finite():
    @dataclass(frozen=True)
    class Rounded(ChannelStep):
        def encode(self, rows, sender):
            return rows.nan_to_num().to(torch.int8), {}

    with pytest.raises(FedloomError, match="let a step send a scale beside them"):
        Channel(fl.FedAvg(), (Rounded(),)).encode(
            Reply({"row": torch.tensor([[torch.nan]])}), Message({"row": torch.zeros(1)}), _cohort()
        )


def _end_of(generator):
    try:
        next(generator)
    except StopIteration as end:
        return end.value
    raise AssertionError


def test_steps_act_in_order_and_are_undone_in_reverse():
    channel = Channel(fl.FedAvg(), (TopK(0.5, error_feedback=False), Halves()))
    message, cohort = Message({"row": torch.tensor([1.0, 1.0, 1.0, 1.0])}), _cohort()
    sent = channel.encode(Reply({"row": torch.tensor([[2.0, 1.0, 9.0, 1.5]])}), message, cohort)
    assert sent.tensors["row"].tolist() == [[0.5, 4.0]]
    assert sent.tensors["row"].dtype == torch.float16
    assert sent.tensors["row@0/positions"].tolist() == [[0, 2]]
    assert sent.cost(1).tolist() == [2 * 2 + 2 * 4]
    assert channel.decode(sent.tensors, message)["row"].tolist() == [[2.0, 1.0, 9.0, 1.0]]
    assert channel.changes(sent.tensors, message)["row"].tolist() == [[1.0, 0.0, 8.0, 0.0]]


def _cohort():
    trainer = prepare(fl.task("digits", clients=2), fl.FedAvg(), resolve({})).composition.trainer
    return Cohort([0], trainer, None, 1)  # type: ignore[arg-type]


def test_what_a_method_does_not_declare_cannot_pass_a_channel():
    class Strange(fl.FedAvg):
        def client_update(self, cohort, message):
            reply = super().client_update(cohort, message)
            return Reply({**reply.tensors, "secret": reply.tensors["row"]})

    with pytest.raises(FedloomError, match="replies with secret, which it does not declare"):
        fl.run(fl.task("digits", clients=2), Strange(), rounds=1, channel=["topk"])


def test_a_base_that_is_missing_is_named():
    class Nameless(fl.FedAvg):
        sends = {"row": fl.Model("the trained model", of="start")}  # noqa: RUF012

    with pytest.raises(FedloomError, match=r"name one with of= or like="):
        fl.run(fl.task("digits", clients=2), Nameless(), rounds=1, channel=["topk"])


def test_a_reply_without_updates_keeps_its_own_byte_count():
    reply = Reply({"anchors": torch.zeros(1, 10, 3)}, bytes=torch.tensor([12]))
    assert Channel(fl.FedGala(), (TopK(),)).encode(reply, Message({"ask": torch.tensor(True)}), _cohort()) is reply


def test_a_probe_leaves_nothing_of_its_channel_to_the_run():
    task = fl.task("digits", clients=4, alpha=1.0, valid_share=0.2)
    probed, cut = [], 0.0
    for threshold in ("auto", None):
        method = fl.FedHybridAvgLG(threshold=threshold or cut, probe_rounds=2)
        run = prepare(task, method, resolve({"rounds": 2, "channel": ["topk"]}, task=task))
        state, engine = initial_state(run.composition), Inline(run.composition.runtime())
        play_prelude(run.composition, engine, state)
        cut = float(state.server.get("threshold", cut))
        play_round(run.composition, engine, state)
        probed.append(state.server["row"])
    assert torch.equal(*probed)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("narrow", r"width\(\) says 15010"),
        ("scalar", "sends scale without an entry per client"),
        ("alone", "encode must return rows and a dictionary, got Tensor"),
    ],
)
def test_a_step_that_encodes_wrongly_is_refused_in_a_sentence(step, said):
    @dataclass(frozen=True)
    class Wrong(ChannelStep):
        def encode(self, rows, sender):
            return {"narrow": (rows[:, 1:], {}), "scalar": (rows, {"scale": torch.tensor(1.0)}), "alone": rows}[step]

    with pytest.raises(FedloomError, match=said):
        fl.run(fl.task("digits", clients=2), "fedavg", rounds=1, channel=[Wrong()])


def test_a_declared_update_that_is_no_row_is_refused():
    class Deep(fl.FedAvg):
        sends = {"row": fl.Model("the model"), "deep": fl.Update("a change in two layers")}  # noqa: RUF012

        def client_update(self, cohort, message):
            row = super().client_update(cohort, message).tensors["row"]
            return Reply({"row": row, "deep": torch.stack([row, row], dim=1)})

    with pytest.raises(FedloomError, match="declare it as a Statistic"):
        fl.run(fl.task("digits", clients=2), Deep(), rounds=1, channel=["topk"])


MESSAGE = Message({"row": torch.zeros(3), "mask": torch.ones(3, dtype=torch.bool), "tag": torch.zeros(4)})


@pytest.mark.parametrize("tensor", [torch.full((1, 3), True), torch.tensor([[3.0, 4.0]]), torch.tensor([[3, 4, 0]])])
@pytest.mark.parametrize("name", ["row", "mask", "tag", "new"])
def test_an_undeclared_reply_under_the_name_of_something_else_that_was_received_is_no_difference_to_it(name, tensor):
    class OwnNames(fl.FedAvg):
        sends = {}  # noqa: RUF012

    assert Channel(OwnNames()).changes({name: tensor}, MESSAGE)[name] is tensor
    with pytest.raises(FedloomError, match=f"replies with {name}, which it does not declare"):
        Channel(OwnNames(), (TopK(),)).encode(Reply({name: tensor}), MESSAGE, _cohort())


def test_an_undeclared_reply_like_what_was_received_is_a_difference_to_it():
    class OwnNames(fl.FedAvg):
        sends = {}  # noqa: RUF012

    message = Message({"a": torch.ones(3)}, each={"b": torch.ones(2, 3)})
    replies = {"a": torch.full((2, 3), 3.0), "b": torch.full((2, 3), 4.0)}
    changes = Channel(OwnNames()).changes(replies, message)
    assert {name: change.unique().tolist() for name, change in changes.items()} == {"a": [2.0], "b": [3.0]}


def test_a_declared_model_of_another_shape_than_what_was_received_is_refused():
    with pytest.raises(FedloomError, match=r"shape \(1, 2\) does not match \(3,\)"):
        Channel(fl.FedAvg()).changes({"row": torch.ones(1, 2)}, MESSAGE)
