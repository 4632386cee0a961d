"""Packed codes: by hand, back and forth, and what fills up."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.channel.bit_packing import pack_codes, packed_width, unpack_codes


def test_eight_bits_become_a_byte_with_the_first_one_lowest():
    assert pack_codes(torch.tensor([[1, 0, 1, 1, 0, 0, 0, 0, 1]], dtype=torch.uint8), 1).tolist() == [[0b1101, 1]]
    assert pack_codes(torch.tensor([[5, 7]], dtype=torch.uint8), 3).tolist() == [[0b111101, 0, 0]]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 8), st.integers(1, 3), st.integers(1, 30), st.randoms(use_true_random=False))
def test_codes_survive_packing_in_the_bytes_that_are_promised(bits, clients, width, random):
    codes = torch.tensor([[random.randrange(2**bits) for _ in range(width)] for _ in range(clients)], dtype=torch.uint8)
    words = pack_codes(codes, bits)
    assert words.dtype == torch.uint8
    assert words.shape == (clients, packed_width(width, bits))
    assert words.nbytes <= clients * (bits * width / 8 + bits)
    assert torch.equal(unpack_codes(words, bits, width), codes)


def test_bits_after_the_last_entry_are_refused():
    with pytest.raises(ValueError, match="after the last entry"):
        unpack_codes(torch.tensor([[0b1000]], dtype=torch.uint8), 1, 3)
