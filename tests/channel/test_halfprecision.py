"""Half precision: its rounding, its range, and an update beyond it."""

import logging

import pytest
import torch
from hypothesis import given, settings

import fedloom as fl
from fedloom.channel.halfprecision import HalfPrecision
from fedloom.core.errors import FedloomError
from support.senders import MemorySender, send, updates

BOUNDS = {"float16": (2**-11, 2**-25), "bfloat16": (2**-8, 2**-134)}


@pytest.mark.parametrize("kind", BOUNDS)
@settings(deadline=None, max_examples=60)
@given(rows=updates())
def test_rounding_is_within_its_bound(kind, rows):
    rows = rows.clamp(-65504, 65504) if kind == "float16" else rows
    of_size, least = BOUNDS[kind]
    assert bool(
        ((send(HalfPrecision(kind), rows) - rows).double().abs() <= rows.double().abs() * of_size + least).all()
    )


def test_an_update_beyond_the_range_does_not_count_and_a_warning_says_why(caplog):
    class Far(fl.FedAvg):
        def client_update(self, cohort, message):
            reply = super().client_update(cohort, message)
            row = reply.tensors["row"] + 1e5 * torch.tensor([[float(client == 1)] for client in cohort.ids])
            return fl.Reply({"row": row})

    history = fl.run(fl.task("digits", clients=3), Far(), rounds=1, channel=["halfprecision"])
    assert history.records[-1]["selected"] == [0, 2]
    assert "an update reaches 1e+05, float16 ends at 6.55e+04, so the update does not count" in caplog.text
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        HalfPrecision("bfloat16").encode(torch.full((1, 2), 1e5), MemorySender())
    assert caplog.text == ""


def test_another_type_is_refused():
    with pytest.raises(FedloomError, match="it must be 'float16' or 'bfloat16'"):
        HalfPrecision("float8")
