"""Messages between the halves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.secure.messages import check_length, enumerate_clients, join, part, short_digest
from fedloom.secure.sum_step import RefusedMessage


@settings(max_examples=30)
@given(
    st.integers(0, 9).flatmap(lambda n: st.dictionaries(st.integers(0, 2**32 - 1), st.binary(min_size=n, max_size=n)))
)
def test_messages_come_back_from_one_text(messages):
    assert part(join(messages)) == messages


@settings(max_examples=30)
@given(st.binary(max_size=60))
def test_any_bytes_are_messages_or_refused(text):
    try:
        messages = part(text)
    except RefusedMessage:
        return
    assert join(messages) == text


def test_messages_of_different_lengths_are_not_joined():
    with pytest.raises(ValueError, match="one length"):
        join({1: b"a", 2: b"bc"})


def test_a_message_of_another_length_is_refused_by_name():
    check_length(b"abc", 3, "it")
    with pytest.raises(RefusedMessage, match="the share has 2 bytes instead of 3"):
        check_length(b"ab", 3, "the share")


def test_many_clients_are_listed_in_short():
    assert enumerate_clients([3, 1]) == "1, 3"
    assert enumerate_clients(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"


def test_shares_have_digests_of_their_own():
    assert short_digest(b"a") != short_digest(b"b")
