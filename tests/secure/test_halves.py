"""Both halves as phases: whatever one client answers, it drops out or the sum is given up, and nothing else happens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedloom.core.errors import Abandoned
from fedloom.secure.halves import MaskedHalf, join_introductions, masked_sum, part_introductions
from fedloom.secure.secure_sum import SecureSum
from fedloom.secure.sum_step import ROWS, RefusedMessage, SumSession, Total

STEP, SESSION = SecureSum(), SumSession("run", 1, 0, (2, 3, 5, 7, 11, 13), 1)
TERMS = STEP.terms(SESSION)
SERVER_KEYS, KEYS = STEP.simulate_keys(SESSION.ids)
ROW = {client: torch.arange(5, dtype=torch.int32) * client - 7 for client in SESSION.ids}
BEFORE_ROWS, AFTER_ROWS = ("advertise", "share", ROWS), ("confirm", "reveal")
HOSTILE = 2  # the first whose answers are read

Answer = Mapping[str, Tensor]


def play(phase_name: str, change: Callable[[Answer], Answer], hostile: tuple[int, ...] = (HOSTILE,)) -> Total:
    """The sum when what some clients answer in one phase is changed on its way."""
    halves = {client: MaskedHalf(TERMS, client, KEYS[client]) for client in SESSION.ids}
    server = masked_sum(TERMS, SERVER_KEYS)
    try:
        phase = next(server)
        while True:
            answers = dict[int, Answer]()
            for client, got in phase.each.items():
                try:
                    answers[client] = halves[client].answer(
                        phase.name, got, ROW[client] if phase.name == ROWS else None
                    )
                except RefusedMessage:
                    continue
                if client in hostile and phase.name == phase_name:
                    answers[client] = change(answers[client])
            phase = server.send(answers)
    except StopIteration as end:
        total: Total = end.value
        return total


def plain_sum(ids: tuple[int, ...]) -> Tensor:
    return torch.stack([ROW[client] for client in ids]).sum(0, dtype=torch.int32)


MALFORMED = {
    "missing": lambda _: {},
    "empty": lambda answer: {name: tensor[:0] for name, tensor in answer.items()},
    "one byte": lambda answer: {name: torch.zeros(1, dtype=torch.uint8) for name in answer},
    "floats": lambda answer: {name: tensor.double() for name, tensor in answer.items()},
    "half floats": lambda answer: {name: tensor.bfloat16() for name, tensor in answer.items()},
    "a matrix": lambda answer: {name: tensor[None] for name, tensor in answer.items()},
    "a number": lambda answer: {name: tensor.sum() for name, tensor in answer.items()},
    "cut off": lambda answer: {name: tensor[:-1] for name, tensor in answer.items()},
    "too long": lambda answer: {name: torch.cat([tensor, tensor]) for name, tensor in answer.items()},
}


@pytest.mark.parametrize("phase", [*BEFORE_ROWS, *AFTER_ROWS])
@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_a_client_that_answers_malformed_tensors_has_dropped_out(phase, change):
    total = play(phase, change)
    assert total.ids == (SESSION.ids[1:] if phase in BEFORE_ROWS else SESSION.ids)
    assert torch.equal(total.row, plain_sum(total.ids))


@pytest.mark.parametrize("phase", [*BEFORE_ROWS, *AFTER_ROWS])
def test_with_too_many_of_them_the_sum_is_given_up(phase):
    with pytest.raises(Abandoned, match=r"3 of 6 clients have .* needs 4"):
        play(phase, MALFORMED["a number"], hostile=SESSION.ids[:3])


@settings(max_examples=60, deadline=None)
@given(
    phase=st.sampled_from(["advertise", "share", *AFTER_ROWS]),
    places=st.lists(st.integers(0, 2000), min_size=1, max_size=3),
    cut=st.sampled_from([0, 0, 0, 1, 4, 100]),
    filling=st.binary(min_size=1, max_size=80),
)
@pytest.mark.slow
def test_no_bytes_of_a_client_end_the_sum_in_another_way_or_make_it_wrong(phase, places, cut, filling):
    def overwrite(tensor: Tensor) -> Tensor:
        text = bytearray(tensor.numpy().tobytes())
        for place in places:
            at = place % (len(text) + 1)
            text[at : at + len(filling)] = filling
        return torch.frombuffer(text, dtype=torch.uint8)[cut:]

    try:
        total = play(phase, lambda answer: {name: overwrite(tensor) for name, tensor in answer.items()})
    except Abandoned:
        assert phase in ("share", "confirm")  # neighbours refuse what they cannot decrypt or was not confirmed
    else:
        assert torch.equal(total.row, plain_sum(total.ids))


def test_a_client_refuses_a_phase_that_does_not_exist_and_what_it_cannot_read():
    half = MaskedHalf(TERMS, HOSTILE, KEYS[HOSTILE])
    with pytest.raises(RefusedMessage, match="no phase 'open'"):
        half.answer("open", {}, None)
    for phase in ("share", ROWS, *AFTER_ROWS):
        with pytest.raises(RefusedMessage, match="missing"):
            half.answer(phase, {}, ROW[HOSTILE])


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.binary(max_size=50), max_size=5))
def test_what_is_joined_is_parted(introductions):
    assert part_introductions(join_introductions(introductions)) == introductions


@given(st.binary(max_size=60))
def test_any_other_bytes_are_refused_or_mean_something(data):
    with contextlib.suppress(RefusedMessage):
        assert join_introductions(part_introductions(data)) == data or len(part_introductions(data)) > 1


def test_what_is_cut_off_or_said_twice_is_refused():
    whole = join_introductions({1: b"abc"})
    for data in (whole[:-1], whole[:5], whole + whole):
        with pytest.raises(RefusedMessage):
            part_introductions(data)
