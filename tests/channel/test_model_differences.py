"""Models as differences: both sides have the same reference, and nothing that rounding left out is lost."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.channel.model_differences import (
    DELTA,
    HAVE,
    from_bytes,
    note_references,
    restore_models,
    round_to_bytes,
    take_differences,
)
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from support.synthetic import cohort, small_task

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
DELTAS = {"rounds": 4, "seed": 3, "local": WORK, "downlink": {"delta": True}}


def is_model(name: str, _: torch.Tensor) -> bool:
    return name == "row"


@given(st.lists(st.floats(-(2.0**60), 2.0**60, width=32), min_size=1, max_size=600))
@example([1.2e-38, 0.0])
@example([2.0**-149])
def test_a_number_is_off_by_half_of_its_scale_at_most(numbers):
    row = torch.tensor(numbers)
    levels, scales = round_to_bytes(row)
    assert levels.dtype == torch.int8
    assert len(scales) == math.ceil(len(row) / 256)
    room = scales.double().repeat_interleave(256)[: len(row)] * (0.5 + 1e-5)
    assert bool(((from_bytes(levels, scales).double() - row.double()).abs() <= room).all())


def test_both_sides_have_the_same_reference_and_it_comes_to_the_model():
    model, memory = torch.randn(700, generator=torch.Generator().manual_seed(1)), {}
    clients, errors = cohort(small_task(), "loop", LocalWork(), [0, 1]), []
    for number in range(5):
        target = model if number else torch.zeros(700)
        outgoing = take_differences(Message({"row": target}), [0, 1], memory, is_model)
        ((_, sent),) = outgoing.parts
        assert (f"row{DELTA}" in sent.shared) == (number > 0)
        got = restore_models(sent, clients, is_model)
        assert torch.equal(got["row"], outgoing.view["row"])
        memory = note_references(outgoing, [0, 1])
        errors.append(float((got["row"] - target).abs().max()))
    assert all(later <= 0.02 * sooner + 1e-6 for sooner, later in itertools.pairwise(errors[1:]))


def test_who_does_not_have_the_reference_gets_it_whole():
    memory = {"row": torch.ones(5), HAVE: torch.tensor([1, 4])}
    outgoing = take_differences(Message({"row": torch.zeros(5), "mu": torch.tensor(1.0)}), [1, 2, 3], memory, is_model)
    (some, sent), (others, whole) = outgoing.parts
    assert (some, others) == ([1], [2, 3])
    assert torch.equal(whole["row"], outgoing.view["row"])
    assert sent["mu"] == whole["mu"] == 1
    assert note_references(outgoing, [1, 3])[HAVE].tolist() == [1, 3]


def test_a_client_with_another_model_or_none_says_so():
    clients = cohort(small_task(), "loop", LocalWork(), [0])
    memory = {"row": torch.ones(5), HAVE: torch.tensor([0])}
    ((_, sent),) = take_differences(Message({"row": torch.zeros(5)}), [0], memory, is_model).parts
    with pytest.raises(FedloomError, match="does not have the model"):
        restore_models(sent, clients, is_model)
    clients.keep("down/row", torch.full((1, 5), 2.0))
    with pytest.raises(FedloomError, match="has a different model"):
        restore_models(sent, clients, is_model)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedrep"])
def test_runs_cost_a_quarter_down_and_learn_the_same(method):
    plain = fl.run(small_task(), method, **{**DELTAS, "downlink": None})
    delta = fl.run(small_task(), method, **DELTAS)
    first, later = (delta.records[number]["bytes_down"] for number in (1, 2))
    assert first == plain.records[1]["bytes_down"]
    assert later < 0.65 * first  # a small model: its digest counts, and the variates of SCAFFOLD go whole
    assert torch.allclose(plain.row, delta.row, atol=0.02)


def test_workers_and_a_stop_change_no_byte(tmp_path):
    settings = {**DELTAS, "selection": fl.Random(0.75)}
    one, two = (fl.run(small_task(), "fedavg", workers=workers, **settings) for workers in (1, 2))
    assert one.records == two.records
    fl.run(small_task(), "fedavg", out=tmp_path / "run", **{**settings, "rounds": 2})
    assert fl.resume(tmp_path / "run", rounds=4, task=small_task()).records[3:] == one.records[3:]


@pytest.mark.parametrize(
    ("method", "settings", "reason"),
    [
        ("fedseq", {}, "downlink with delta is for .*, and fedseq lets clients hand models to each other"),
        ("fedu", {}, "downlink with delta is for .* all clients get, and fedu sends another model to each client"),
        ("local", {}, "downlink codes the model that goes down, and local sends no model down"),
        (
            "fedavg",
            {"channel": ["securesum"]},
            "securesum .* all clients start from the same bytes, and downlink sends different bytes",
        ),
        (
            "fedavg",
            {"channel": ["cmfl"]},
            "downlink with delta needs to know who has the model, .* cmfl lets clients withhold",
        ),
        (
            "fedavg",
            {"federated_dropout": {"keep": 0.5}},
            "downlink with delta .* a whole model, and federated_dropout lets a client train other",
        ),
    ],
)
def test_what_cannot_bear_it_is_refused(method, settings, reason):
    with pytest.raises(FedloomError, match=reason):
        fl.run(small_task(), method, **{**DELTAS, **settings})
