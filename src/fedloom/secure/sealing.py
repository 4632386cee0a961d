"""Sealing: a text that one party encrypts for another, and of which the other knows who it is from.

The scheme is that of HPKE in its authenticated mode (RFC 9180, section 5.1.3): the sender makes a new X25519 key for
every text, and the key of the text comes from two agreements, one of the new key and one of the sender's own key, both
with the receiver's own key. The new key makes every text's key its own, so AES-256-GCM needs no nonce to be drawn and
none can repeat; the agreement of the parties' own keys says who sealed it. What the text is about is bound into its
key and into its tag. We do not use HPKE's labels, so the bytes are ours.

Who later steals the receiver's own key can open what was recorded: there is no forward secrecy towards the receiver,
since a receiver that is restarted in the middle of a round must still be able to open what was sent to it.
"""

from __future__ import annotations

import os

from fedloom.secure.primitives import KEY, TAG, ExchangeKey, decrypt, derive, digest, encrypt

OVERHEAD = KEY + TAG
"""What sealing adds to a text, in bytes."""
_PURPOSE = b"fedloom sealed text"


def seal(text: bytes, about: bytes, own: ExchangeKey, receiver: bytes) -> bytes:
    """A text that only the receiver can open; a ``ValueError`` says that the receiver's key is weak.

    Args:
        about: What the text belongs to; opening it needs the same.
        own: The sender's key.
        receiver: The public half of the receiver's key.
    """
    once = ExchangeKey(os.urandom(KEY))
    secret = once.agree(receiver) + own.agree(receiver)
    return once.public + encrypt(_text_key(secret, about, once.public, own.public, receiver), text, about)


def unseal(sealed: bytes, about: bytes, own: ExchangeKey, sender: bytes) -> bytes | None:
    """What was sealed; None unless the sender has sealed it for the owner of this key, about the same.

    Args:
        about: What the text belongs to.
        own: The receiver's key.
        sender: The public half of the sender's key.
    """
    if len(sealed) < OVERHEAD:
        return None
    once = sealed[:KEY]
    try:
        secret = own.agree(once) + own.agree(sender)
    except ValueError:
        return None
    return decrypt(_text_key(secret, about, once, sender, own.public), sealed[KEY:], about)


def _text_key(secret: bytes, about: bytes, once: bytes, sender: bytes, receiver: bytes) -> bytes:
    """The key of one text: all keys that it comes from are in it, so that it fits no other parties."""
    return derive(secret, _PURPOSE + digest(about, once, sender, receiver))
