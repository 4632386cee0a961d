"""Signed keys of a round."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.secure.identity import (
    RoundKeys,
    new_signing_key,
    read_advertisement,
    write_advertisement,
)
from fedloom.secure.primitives import signing_public
from fedloom.secure.sum_step import RefusedMessage
from support.secure_sums import fixed_key

KEYS = {client: signing_public(fixed_key(f"identity {client}")) for client in (0, 4, 2**32 - 1)}
ROUND = RoundKeys(fixed_key("c"), fixed_key("m"), fixed_key("b")[:16], fixed_key("b")[16:])
ADVERTISEMENT = write_advertisement(ROUND, b"terms", 4, fixed_key("identity 4"))


def test_round_keys_are_read_for_the_sum_and_the_client_that_signed_them():
    assert read_advertisement(ADVERTISEMENT, b"terms", 4, KEYS) == ROUND


@settings(max_examples=30)
@given(st.integers(0, 8 * len(ADVERTISEMENT) - 1))
def test_round_keys_with_any_bit_changed_are_refused(bit):
    changed = bytearray(ADVERTISEMENT)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RefusedMessage, match="changed, replayed or invented"):
        read_advertisement(bytes(changed), b"terms", 4, KEYS)


def test_round_keys_of_another_sum_of_another_client_or_of_an_invented_one_are_refused():
    for about, client, sentence in ((b"other", 4, "replayed"), (b"terms", 0, "replayed"), (b"terms", 9, "roster")):
        with pytest.raises(RefusedMessage, match=sentence):
            read_advertisement(ADVERTISEMENT, about, client, KEYS)


@settings(max_examples=30)
@given(st.binary(max_size=300))
def test_bytes_that_are_no_round_keys_are_refused(data):
    with pytest.raises(RefusedMessage):
        read_advertisement(data, b"terms", 4, KEYS)


def test_new_keys_differ():
    assert len({new_signing_key(), new_signing_key()}) == 2
