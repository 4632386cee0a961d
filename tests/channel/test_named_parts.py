"""Channels by name, and what a config may not say."""

import pytest
import torch

import fedloom as fl
from fedloom.core.channel_step import ChannelStep
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import CHANNEL_STEPS
from support.senders import MemorySender, small_model


@pytest.mark.slow
def test_every_step_runs_from_its_name():
    task = fl.task("digits", clients=3)
    for name in CHANNEL_STEPS:
        assert fl.run(task, "fedavg", rounds=1, channel=[name]).config["channel"][0]["name"] == name


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["topc"], "Did you mean 'topk'"),
        ([{"name": "topk", "fraction": 0}], "above 0"),
        ([{"fraction": 0.5}], "a channel step needs a name"),
        ({}, "give a list"),
        (0, "give a list"),
        ("", "give a list"),
        (False, "give a list"),
    ],
)
def test_what_is_wrong_is_said(value, said):
    with pytest.raises(FedloomError, match=said):
        fl.run("digits", "fedavg", rounds=1, channel=value)


def test_steps_may_be_written_as_short_as_a_method():
    """``--set channel=topk:fraction=0.5`` was refused, with a list of tables as the only way."""
    task = fl.task("digits", clients=3)
    short = fl.run(task, "fedavg", rounds=1, channel="topk:fraction=0.5,error_feedback=false,qsgd:bits=8")
    long = [{"name": "topk", "fraction": 0.5, "error_feedback": False}, {"name": "qsgd", "bits": 8}]
    assert short.config["channel"] == fl.run(task, "fedavg", rounds=1, channel=long).config["channel"]


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("local", "topk acts on what clients send, and local sends nothing: leave it out"),
        ("fedproto", "topk acts on updates of a model, and fedproto sends no update of a model: leave it out"),
        ("centralised", "topk acts on what clients send, and centralised has all data in one place: leave it out"),
    ],
)
def test_a_method_without_updates_refuses_a_channel(method, why):
    with pytest.raises(FedloomError, match=why):
        fl.run("digits", method, rounds=1, channel=["topk"])


TASK = small_model()
STEPS = {name: kind() for name, kind in CHANNEL_STEPS.items()} | {"localnoise": fl.LocalNoise(seeded=True)}
ROWS = torch.randn(4, TASK.layout.width, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", CHANNEL_STEPS)
def test_what_a_client_sends_does_not_depend_on_who_is_encoded_with_it(name):
    step = STEPS[name].for_task(TASK)
    rows, extras = step.encode(ROWS, MemorySender(range(4)))
    for place in range(4):
        alone, beside = step.encode(ROWS[place : place + 1], MemorySender([place]))
        assert torch.equal(alone[0], rows[place])
        assert all(torch.equal(beside[extra][0], extras[extra][place]) for extra in extras)
        apart = step.decode(alone, beside, TASK.layout.width)
        assert torch.equal(apart[0], step.decode(rows, extras, TASK.layout.width)[place])


@pytest.mark.parametrize(
    "name", [name for name, kind in CHANNEL_STEPS.items() if kind.decode is not ChannelStep.decode]
)
def test_what_no_client_encodes_is_refused(name):
    step = STEPS[name].for_task(TASK)
    rows, extras = step.encode(ROWS, MemorySender(range(4)))
    wrong = [(rows[:, 1:], extras), (torch.cat([rows, rows], 1), extras), (rows.double(), extras)]
    wrong += [(rows, {other: t for other, t in extras.items() if other != extra}) for extra in extras]
    wrong += [(rows, extras | {extra: tensor[:, :0]}) for extra, tensor in extras.items()]
    wrong += [(rows, extras | {extra: tensor.to(torch.int16)}) for extra, tensor in extras.items()]
    for strange, beside in wrong:
        with pytest.raises(ValueError, match=r"instead of|is missing"):
            step.decode(strange, beside, TASK.layout.width)


@pytest.mark.parametrize("last", ["qsgd", "sign", "halfprecision"])
def test_a_step_behind_one_that_packs_is_refused(last):
    with pytest.raises(
        FedloomError, match=f"{last} leaves no numbers that topk could act on: make {last} the last step"
    ):
        fl.run("digits", "fedavg", rounds=1, channel=[last, {"name": "topk", "error_feedback": False}])
