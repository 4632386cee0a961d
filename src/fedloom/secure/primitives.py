"""The cryptography of secure sums: every call of the library ``cryptography`` is here.

X25519 agrees on secrets, HKDF-SHA256 makes keys of them, AES-256-CTR expands keys into masks, AES-256-GCM encrypts
shares and Ed25519 signs. All keys are raw bytes, 32 of them.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import lru_cache

import numpy as np

from fedloom.core.errors import FedloomError

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    raise FedloomError("secure sums need the library cryptography: pip install 'fedloom[secure]'.") from None

KEY = 32
"""The bytes of every key, and of every digest."""
SIGNATURE = 64
TAG = 16
"""What encryption adds to a text, in bytes."""


class ExchangeKey:
    """The X25519 key of one client. Loading it takes as long as using it once.

    Args:
        private: The private half.
    """

    def __init__(self, private: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(private)

    @property
    def public(self) -> bytes:
        """The public half."""
        return self._key.public_key().public_bytes_raw()

    def agree(self, public: bytes) -> bytes:
        """The secret that this client and the owner of another key share.

        Args:
            public: The public half of the other key; a ``ValueError`` says that it is weak.
        """
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise ValueError("a public key is not one of X25519, or a weak one") from None


def check_exchange_key(public: bytes) -> None:
    """Raise a ``ValueError`` for a public key that nobody can agree on a secret with.

    Private keys are multiples of 8, so a point of low order gives zero with any of them: one tells for all.

    Args:
        public: The public half of an X25519 key.
    """
    ExchangeKey(bytes(KEY)).agree(public)


def derive(secret: bytes, purpose: bytes, length: int = KEY) -> bytes:
    """A key for one purpose.

    Args:
        secret: What it is derived from.
        purpose: Binds the key to its use: keys of different purposes tell nothing about each other.
        length: Its bytes.
    """
    return HKDF(hashes.SHA256(), length, None, purpose).derive(secret)


def fill_stream(key: bytes, zeros: np.ndarray, stream: np.ndarray) -> None:
    """Write the stream of a key, from its beginning. A key makes one stream only, so the counter begins at zero.

    Args:
        zeros: As many zero bytes as are wanted.
        stream: Where to; at least as long.
    """
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    encryptor.update_into(zeros.data, stream.data)


def encrypt(key: bytes, text: bytes, about: bytes) -> bytes:
    """A text that only the owners of a key can read and that nobody else can change.

    Args:
        key: The key; it encrypts one text only, so its nonce is zero.
        about: What the text belongs to; decrypting needs the same.
    """
    return AESGCM(key).encrypt(bytes(12), text, about)


def decrypt(key: bytes, text: bytes, about: bytes) -> bytes | None:
    """What was encrypted; None if this is not what was encrypted with this key, about the same.

    Args:
        text: The encrypted text.
        about: What the text belongs to.
    """
    try:
        return AESGCM(key).decrypt(bytes(12), text, about)
    except InvalidTag:
        return None


def signing_public(private: bytes) -> bytes:
    """The public half of an Ed25519 key.

    Args:
        private: The private half.
    """
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def sign(private: bytes, text: bytes) -> bytes:
    """The signature of a text.

    Args:
        private: The private half of the signer's key.
    """
    return Ed25519PrivateKey.from_private_bytes(private).sign(text)


@lru_cache(maxsize=1024)  # in a simulation each client asks about the same signatures
def is_signed(public: bytes, text: bytes, signature: bytes) -> bool:
    """Whether a signature is that of a key's owner, of this text.

    Args:
        public: The public half of the signer's key.
    """
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def digest(*parts: bytes) -> bytes:
    """The SHA-256 digest of some texts; of several, where each begins counts too.

    Args:
        parts: The texts.
    """
    if len(parts) > 1:
        parts = (b"".join(len(part).to_bytes(8, "big") + part for part in parts),)
    return hashlib.sha256(*parts).digest()


def authenticate(key: bytes, text: bytes) -> bytes:
    """A code that only the owners of a key can make of a text."""
    return hmac.digest(key, text, "sha256")


def is_same(one: bytes, other: bytes) -> bool:
    """Whether two codes are equal, in a time that does not depend on where they differ.

    Args:
        one: A code.
        other: Another.
    """
    return hmac.compare_digest(one, other)
