"""Shamir's shares."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.secure.shamir import PRIME, SHARE, check_share, combine, count_random_bytes, split


def randomness(threshold: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(count_random_bytes(threshold))


@settings(max_examples=30)
@given(
    secret=st.binary(min_size=32, max_size=32),
    holders=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=9, unique=True),
    data=st.data(),
)
def test_any_threshold_of_shares_gives_the_secret_back(secret, holders, data):
    threshold = data.draw(st.integers(1, len(holders)))
    shares = split(secret, holders, threshold, randomness(threshold))
    some = data.draw(st.lists(st.sampled_from(holders), min_size=threshold, unique=True))
    assert combine({holder: shares[holder] for holder in some}, threshold) == secret
    with pytest.raises(FedloomError, match=f"needs {threshold} shares"):
        combine({holder: shares[holder] for holder in some[: threshold - 1]}, threshold)


def test_a_share_is_the_value_of_the_polynomial():
    slope = 5**200 % PRIME
    shares = split((7).to_bytes(32, "big"), [0, 3], 2, slope.to_bytes(SHARE, "big"))
    assert shares == {holder: ((7 + slope * (holder + 1)) % PRIME).to_bytes(SHARE, "big") for holder in (0, 3)}


def test_two_polynomials_of_one_secret_have_no_share_in_common():
    one, other = (split(bytes(32), range(5), 3, randomness(3, seed)) for seed in (1, 2))
    assert not set(one.values()) & set(other.values())


def test_too_few_shares_say_nothing():
    # With a threshold of 3, any two shares belong to any secret: there is a third share that gives it.
    shares = split(bytes(32), [0, 1, 2], 3, randomness(3))
    first, second = (check_share(shares[holder]) for holder in (0, 1))
    for secret in (1, 2**255):
        # the parabola through (0, secret), (1, first), (2, second), at 3
        third = (secret - 3 * first + 3 * second) % PRIME
        forged = {0: shares[0], 1: shares[1], 2: third.to_bytes(SHARE, "big")}
        assert combine(forged, 3) == secret.to_bytes(32, "big")


def test_a_wrong_share_is_found_where_the_secret_is_too_large():
    shares = split(bytes(32), range(4), 3, randomness(3))
    shares[1] = bytes(SHARE)
    with pytest.raises(FedloomError, match="do not belong to one secret"):
        combine(shares, 3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((bytes(31), [0, 1], 2, randomness(2)), "32 bytes"),
        ((bytes(32), [1, 1], 2, randomness(2)), "number of its own"),
        ((bytes(32), [-1, 1], 2, randomness(2)), "number of its own"),
        ((bytes(32), [0, 1], 3, randomness(3)), "threshold=3"),
        ((bytes(32), [0, 1], 0, b""), "threshold=0"),
        ((bytes(32), [0, 1], 2, b"too short"), "random bytes"),
    ],
)
def test_what_cannot_be_split_is_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        split(*arguments)


@pytest.mark.parametrize("share", [b"", bytes(SHARE - 1), bytes(SHARE + 1), PRIME.to_bytes(SHARE, "big")])
def test_bytes_that_are_no_share_are_refused(share):
    with pytest.raises(ValueError, match="a share has 66 bytes"):
        combine({0: share, 1: bytes(SHARE)}, 2)


def test_a_holder_with_a_negative_number_is_refused():
    with pytest.raises(ValueError, match="from 0"):
        combine({-1: bytes(SHARE), 1: bytes(SHARE)}, 2)
