"""Secure sums as a step: what comes out is the plain sum of the rounded rows, and every phase can be broken."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.secure.secure_sum import SecureSum
from fedloom.secure.sum_step import SumSession, Total
from fedloom.secure.sums import play_sum
from support.synthetic import small_task

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}


def generators(count: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(place) for place in range(count)]


def coded(step: SecureSum, values: torch.Tensor, weights: list[int], session: SumSession) -> torch.Tensor:
    return step.code(values.double(), torch.tensor(weights), session, generators(len(values)))


@given(
    st.lists(st.lists(st.floats(-3, 3, width=32), min_size=4, max_size=4), min_size=2, max_size=5),
    st.sampled_from([8, 16, 20, 31]),
)
@settings(max_examples=30, deadline=None)
def test_a_sum_is_the_plain_sum_of_the_coded_rows_to_the_bit(rows, bits):
    step, values = SecureSum(bits=bits, limit=2.0), torch.tensor(rows)
    session = SumSession("run", 3, 1, tuple(range(10, 10 + len(rows))), 7)
    integers = coded(step, values, [7] * len(rows), session)
    total, _, _ = play_sum(step, session, dict(zip(session.ids, integers, strict=True)))
    assert torch.equal(total.row, integers.sum(0, dtype=integers.dtype))
    decoded = step.decode_total(total, session)
    largest = values.abs().amax(1)
    fitting = values.double() / (largest / 2.0).clamp(min=1.0)[:, None]
    assert decoded.weight == 7 * len(rows)
    assert decoded.scaled == int((largest > 2.0).sum())
    error = (decoded.values - fitting.sum(0)).abs().max()
    assert float(error) <= len(rows) * step.grid(len(rows)).step


def test_values_at_the_edge_neither_wrap_nor_clip():
    step, ids = SecureSum(bits=31, limit=1.0), tuple(range(40))
    session = SumSession("run", 1, 0, ids, 1)
    for sign in (1.0, -1.0):
        integers = coded(step, torch.full((40, 3), sign), [1] * 40, session)
        decoded = step.decode_total(Total(integers.sum(0), ids), session)
        assert decoded.values.tolist() == pytest.approx([sign * 40] * 3)
        assert decoded.scaled == 0


def test_a_run_says_how_many_updates_did_not_fit():
    history = fl.run(small_task(), "fedavg", rounds=1, local=WORK, channel=[SecureSum(limit=1e-3)])
    assert history.records[1]["metrics"]["sums/scaled"] == 4
    history = fl.run(small_task(), "fedavg", rounds=1, local=WORK, channel=["securesum"])
    assert "sums/scaled" not in history.records[1]["metrics"]


def test_a_run_is_repeated_to_the_byte_though_its_masks_are_not():
    one, other = (fl.run(small_task(), "scaffold", rounds=2, local=WORK, channel=["securesum"]) for _ in range(2))
    assert torch.equal(one.row, other.row)
    assert one.records == other.records


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"bits": 1}, "at least 2 and at most 32"),
        ({"limit": 0.0}, "limit=0.0: it must be above 0"),
        ({"dropouts": 0.5}, "twice the dropouts and the colluders"),
        ({"least_clients": 1}, "the sum of fewer than 2 hides nothing"),
        ({"dropouts": 1.0}, "it must be at least 0 and less than 1"),
        ({"colluders": -0.1}, "it must be at least 0 and less than 1"),
    ],
)
def test_settings_that_cannot_mean_anything_are_refused(setting, reason):
    with pytest.raises(FedloomError, match=reason):
        SecureSum(**setting)


def test_a_round_whose_clients_could_all_collude_is_refused_before_they_train():
    with pytest.raises(FedloomError, match="a server could open single updates"):
        fl.run(small_task(), "fedavg", rounds=1, channel=[SecureSum(dropouts=0.25, colluders=0.5)])
