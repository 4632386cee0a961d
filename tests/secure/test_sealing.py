"""Sealing: only the receiver opens a text, knows who sealed it, and what it is about."""

from __future__ import annotations

import os

import pytest

from fedloom.core.relays import ROOM
from fedloom.secure.primitives import ExchangeKey
from fedloom.secure.sealing import OVERHEAD, seal, unseal

ALICE, BOB, EVE = (ExchangeKey(os.urandom(32)) for _ in range(3))
TEXT, ABOUT = b"a model", b"round 1"


def test_the_receiver_opens_what_the_sender_sealed():
    sealed = seal(TEXT, ABOUT, ALICE, BOB.public)
    assert unseal(sealed, ABOUT, BOB, ALICE.public) == TEXT
    assert TEXT not in sealed
    assert len(sealed) == len(TEXT) + OVERHEAD


def test_an_envelope_has_room_for_what_sealing_adds():
    assert ROOM == OVERHEAD


def test_two_sealed_texts_are_never_the_same():
    assert seal(TEXT, ABOUT, ALICE, BOB.public) != seal(TEXT, ABOUT, ALICE, BOB.public)


@pytest.mark.parametrize(
    ("about", "receiver", "sender"),
    [(b"round 2", BOB, ALICE), (ABOUT, EVE, ALICE), (ABOUT, BOB, EVE)],
    ids=["another round", "another receiver", "another sender"],
)
def test_nothing_opens_under_another_name_or_place(about, receiver, sender):
    assert unseal(seal(TEXT, ABOUT, ALICE, BOB.public), about, receiver, sender.public) is None


def test_the_sender_cannot_be_claimed_by_who_only_knows_public_keys():
    assert unseal(seal(TEXT, ABOUT, EVE, BOB.public), ABOUT, BOB, ALICE.public) is None


def test_a_changed_byte_anywhere_is_noticed():
    sealed = seal(TEXT, ABOUT, ALICE, BOB.public)
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        assert unseal(bytes(changed), ABOUT, BOB, ALICE.public) is None
    changed = bytearray(sealed)
    changed[31] ^= 0x80  # X25519 ignores this bit, and the key of the text does not
    assert unseal(bytes(changed), ABOUT, BOB, ALICE.public) is None


@pytest.mark.parametrize("text", [b"", b"short", bytes(200)])
def test_what_was_never_sealed_does_not_open(text):
    assert unseal(text, ABOUT, BOB, ALICE.public) is None


def test_a_weak_key_of_a_receiver_is_refused():
    with pytest.raises(ValueError, match="weak"):
        seal(TEXT, ABOUT, ALICE, bytes(32))
