"""Masks cancel to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.secure.masks import MaskAdder, pair_key, pair_sign, self_key
from fedloom.secure.primitives import ExchangeKey
from support.secure_sums import fixed_key


@settings(max_examples=30)
@given(
    width=st.integers(0, 40),
    clients=st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=5, unique=True),
    dtype=st.sampled_from(["uint32", "uint64"]),
)
def test_pair_masks_cancel_in_the_sum_of_all_clients(width, clients, dtype):
    keys = {client: ExchangeKey(fixed_key(f"mask {client}")) for client in clients}
    adder = MaskAdder(width, np.dtype(dtype))
    total = np.zeros(width, dtype=dtype)
    for client in clients:
        for other in set(clients) - {client}:
            adder.add(total, pair_key(keys[client], keys[other].public, b"r", client, other), pair_sign(client, other))
    assert not total.any()


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_a_mask_is_removed_to_the_bit_and_has_no_short_words(dtype):
    row = np.full(1000, np.iinfo(dtype).max, dtype=dtype)
    masked = row.copy()
    adder, key = MaskAdder(1000, row.dtype), self_key(fixed_key("b"), b"r", 3)
    adder.add(masked, key, 1)
    assert masked.max() > np.iinfo(dtype).max * 0.99
    assert (masked != row).sum() >= 999
    adder.add(masked, key, -1)
    assert (masked == row).all()


def test_keys_differ_by_round_client_and_pair():
    one, other = ExchangeKey(fixed_key("one")), ExchangeKey(fixed_key("other"))
    keys = {
        pair_key(one, other.public, b"r", 1, 2),
        pair_key(one, other.public, b"s", 1, 2),
        pair_key(one, other.public, b"r", 1, 3),
        self_key(fixed_key("b"), b"r", 1),
        self_key(fixed_key("b"), b"r", 2),
        self_key(fixed_key("b"), b"s", 1),
    }
    assert len(keys) == 6
    assert pair_key(one, other.public, b"r", 1, 2) == pair_key(other, one.public, b"r", 2, 1)
