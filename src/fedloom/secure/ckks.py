"""Homomorphic sums: sites encrypt rows under a key of their own, and the server adds what it cannot read.

CKKS (Cheon et al., https://eprint.iacr.org/2016/421) by TenSEAL, with polynomials of degree 8192, a scale of 2^40 and
two primes of 60 bits: a sum needs no multiplication, so a third prime would only double the bytes. The Homomorphic
Encryption Standard allows 218 bits at this degree for 128 bits of security; these are 120. A text holds 4096 values in
131 kB, 8 times their float32s. All sites have the one secret key, so encryption is symmetric: its noise is the
smallest, and the server needs no key at all.

**The error of a sum** is at most 2^-28 per site in every coordinate. A text's noise has a deviation of
``2^-40 * 3.2 * sqrt(4096) = 2^-32.3``: this is 20 times as much, and leaves room for the rounding of values up to 2^18.
The noise is new in every round; ``homomorphic_sum.py`` rounds it away.

What is not promised: one site that gives the key to the server opens every row, so this is for a few sites that trust
each other; a text that was changed on its way decrypts to other numbers (TLS protects it); and **a decrypted sum must
not be sent to the server as it is**, since its noise tells about the key (Li and Micciancio,
https://eprint.iacr.org/2020/1533).

The library comes with ``pip install 'fedloom[ckks]'``.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.secure.sum_step import RefusedMessage

DEGREE, PRIMES, SCALE = 8192, [60, 60], 2.0**40
SLOTS = DEGREE // 2
"""The values of one text."""
TEXT_BYTES = 131_224
"""The bytes of one text with its length in front; shorter ones are filled with zeros."""
LARGEST_SUM = 2.0**18
"""Sums stay below it, by half of what the primes hold."""
ERROR = 2.0**-28
"""What each site adds to the error of a sum at most."""

Encrypted = NDArray[np.uint8]
"""An encrypted row: some texts of ``TEXT_BYTES``."""


def make_keys() -> tuple[bytes, bytes]:
    """A new secret key, for all sites, and what the server needs to add: the parameters, without a key."""
    library = load_library()
    symmetric = library.ENCRYPTION_TYPE.SYMMETRIC
    context = library.context(
        library.SCHEME_TYPE.CKKS, DEGREE, coeff_mod_bit_sizes=PRIMES, encryption_type=symmetric, n_threads=1
    )
    context.global_scale = SCALE
    parts = {"save_public_key": False, "save_galois_keys": False, "save_relin_keys": False}
    return context.serialize(save_secret_key=True, **parts), context.serialize(save_secret_key=False, **parts)


def encrypted_bytes(width: int) -> int:
    """The bytes of an encrypted row.

    Args:
        width: The values of the row.
    """
    return -(-width // SLOTS) * TEXT_BYTES


class CkksSite:
    """A site's half: it has the secret key.

    Args:
        secret: The secret key, from ``make_keys``.
        sites: The most rows that are added up.
    """

    def __init__(self, secret: bytes, sites: int) -> None:
        if sites < 2:
            raise FedloomError(f"sites={sites}: a homomorphic sum needs at least two sites.")
        self._context = _context(secret)
        if not self._context.has_secret_key():
            raise FedloomError("this is not a secret key of homomorphic sums: take the file that only sites have.")
        self.sites = sites

    @property
    def largest_value(self) -> float:
        """The largest magnitude of a value that a site may send."""
        return LARGEST_SUM / self.sites

    def encrypt(self, row: Tensor) -> Encrypted:
        """A row that only sites can read.

        Args:
            row: A vector of finite numbers.
        """
        values = row.detach().double().numpy()
        if values.ndim != 1:
            raise FedloomError(f"a homomorphic sum adds vectors, got a tensor of shape {values.shape}.")
        if not np.isfinite(values).all():
            raise FedloomError("an update has values that are not finite, and a homomorphic sum cannot carry them.")
        if len(values) and np.abs(values).max() > self.largest_value:
            raise FedloomError(
                f"an update has a value of {np.abs(values).max():.3g}, and a homomorphic sum of {self.sites} sites "
                f"carries values up to {self.largest_value:.3g}: scale the update."
            )
        padded = np.zeros(-(-len(values) // SLOTS) * SLOTS)
        padded[: len(values)] = values
        library = load_library()
        return _join([library.ckks_vector(self._context, chunk) for chunk in padded.reshape(-1, SLOTS)])

    def decrypt(self, total: Encrypted, width: int) -> Tensor:
        """The values of a sum, in double precision.

        Args:
            total: The encrypted sum.
            width: How many values there are.
        """
        texts = _part(total, width)
        values = [np.asarray(_vector(self._context, text).decrypt()) for text in texts]
        row = np.concatenate([np.zeros(0), *values])[:width]
        if not (np.abs(row) < 2 * LARGEST_SUM).all():
            raise RefusedMessage("a homomorphic sum was not encrypted with the key of this site, or was changed.")
        return torch.from_numpy(row)


class CkksAdder:
    """The server's half: it adds encrypted rows, and has no key.

    Args:
        public: The parameters, from ``make_keys``.
        width: The values of a row.
    """

    def __init__(self, public: bytes, width: int) -> None:
        self._context = _context(public)
        if self._context.has_secret_key():
            raise FedloomError("the server of homomorphic sums was given the secret key: it must stay with the sites.")
        self._width = width
        self._sum: list[Any] | None = None

    def add(self, row: Encrypted) -> None:
        """Add a row. A ``RefusedMessage`` says that it is not a row, and then the sum is as before."""
        vectors = [_vector(self._context, text) for text in _part(row, self._width)]
        try:
            self._sum = (
                vectors if self._sum is None else [one + other for one, other in zip(self._sum, vectors, strict=True)]
            )
        except (ValueError, RuntimeError):
            raise RefusedMessage("an encrypted row cannot be added to the others.") from None

    def total(self) -> Encrypted:
        """The encrypted sum."""
        if self._sum is None:
            raise FedloomError("a homomorphic sum without rows cannot be opened.")
        return _join(self._sum)


def _join(vectors: list[Any]) -> Encrypted:
    """Texts of one length, one behind the other."""
    row = np.zeros((len(vectors), TEXT_BYTES), dtype=np.uint8)
    for place, vector in enumerate(vectors):
        text = vector.serialize()
        if len(text) > TEXT_BYTES - 4:
            raise FedloomError(f"an encrypted text has {len(text)} bytes, more than {TEXT_BYTES - 4}.")
        row[place, : 4 + len(text)] = np.frombuffer(len(text).to_bytes(4, "big") + text, dtype=np.uint8)
    return row.reshape(-1)


def _part(row: Encrypted, width: int) -> list[bytes]:
    """The texts of an encrypted row."""
    length = encrypted_bytes(width)
    if row.dtype != np.uint8 or row.shape != (length,):
        raise RefusedMessage(
            f"an encrypted row of {width} values has {length} bytes, got {row.dtype} of shape {row.shape}."
        )
    texts = []
    for chunk in row.reshape(-1, TEXT_BYTES):
        length = int.from_bytes(chunk[:4].tobytes(), "big")
        if length > TEXT_BYTES - 4:
            raise RefusedMessage(f"an encrypted text claims {length} bytes.")
        texts.append(chunk[4 : 4 + length].tobytes())
    return texts


def _vector(context: Any, text: bytes) -> Any:
    """An encrypted text as the library has it."""
    try:
        vector = load_library().ckks_vector_from(context, text)
        (cipher,) = vector.ciphertext()
        if vector.size() != SLOTS or cipher.scale != SCALE or not _has_form(cipher):
            raise ValueError
    except (ValueError, RuntimeError, TypeError):
        raise RefusedMessage("bytes that should be an encrypted text are not.") from None
    return vector


def _has_form(cipher: Any) -> bool:
    """Whether a text has two polynomials of the right degree, modulo one prime, as transforms: as it was encrypted."""
    found = cipher.size(), cipher.coeff_modulus_size(), cipher.poly_modulus_degree(), cipher.is_ntt_form()
    return bool(found == (2, len(PRIMES) - 1, DEGREE, True))


def _context(data: bytes) -> Any:
    try:
        return load_library().context_from(data, n_threads=1)
    except (ValueError, RuntimeError, TypeError):
        raise FedloomError("the key file of homomorphic sums is damaged: copy it again.") from None


def load_library() -> Any:
    """TenSEAL, or a sentence that says how to get it."""
    try:
        return importlib.import_module("tenseal")
    except ImportError as error:
        raise FedloomError("homomorphic sums need TenSEAL: pip install 'fedloom[ckks]'.") from error
