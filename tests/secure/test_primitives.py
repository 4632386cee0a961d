"""The library's calls, against published vectors."""

import sys

import numpy as np
import pytest

from fedloom.core.errors import FedloomError
from fedloom.secure import primitives
from support.secure_sums import fixed_key


def test_hkdf_is_that_of_rfc_5869():
    expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    assert primitives.derive(b"\x0b" * 22, b"", 42).hex() == expected


def test_ed25519_is_that_of_rfc_8032():
    private = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert primitives.signing_public(private).hex() == public
    signature = primitives.sign(private, b"")
    assert signature.hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155")
    assert primitives.is_signed(bytes.fromhex(public), b"", signature)
    assert not primitives.is_signed(bytes.fromhex(public), b"other", signature)
    assert not primitives.is_signed(b"no key", b"", signature)


def test_the_stream_is_aes_of_the_counter():
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key, stream = fixed_key("a"), np.empty(5 * 16 + 16, dtype=np.uint8)
    primitives.fill_stream(key, np.zeros(5 * 16, dtype=np.uint8), stream)
    blocks = b"".join(counter.to_bytes(16, "big") for counter in range(5))
    assert stream[:80].tobytes() == Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)  # noqa: S305


def test_two_clients_agree_on_a_secret_and_a_weak_key_is_refused():
    one, other = primitives.ExchangeKey(fixed_key("one")), primitives.ExchangeKey(fixed_key("other"))
    assert one.agree(other.public) == other.agree(one.public)
    for weak in (bytes(32), b"\x01" + bytes(31), b"short"):
        with pytest.raises(ValueError, match="weak"):
            one.agree(weak)


def test_what_was_encrypted_is_read_with_the_same_key_about_the_same():
    text = primitives.encrypt(fixed_key("k"), b"a share", b"round 1")
    assert primitives.decrypt(fixed_key("k"), text, b"round 1") == b"a share"
    assert primitives.decrypt(fixed_key("k"), text, b"round 2") is None
    assert primitives.decrypt(fixed_key("l"), text, b"round 1") is None
    assert primitives.decrypt(fixed_key("k"), text[:-1] + bytes([text[-1] ^ 1]), b"round 1") is None


def test_a_digest_knows_where_its_parts_begin():
    assert primitives.digest(b"ab", b"c") != primitives.digest(b"a", b"bc")


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    monkeypatch.delitem(sys.modules, "fedloom.secure.primitives")
    with pytest.raises(FedloomError, match=r"pip install 'fedloom\[secure\]'"):
        __import__("fedloom.secure.primitives")


def test_every_point_of_low_order_is_recognised_as_a_weak_key():
    prime = 2**255 - 19
    eighth = (
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    )
    low = [number.to_bytes(32, "little") for number in (0, 1, prime - 1, prime, prime + 1)]
    for public in (*low, *map(bytes.fromhex, eighth), b"", bytes(31)):
        with pytest.raises(ValueError, match="weak"):
            primitives.check_exchange_key(public)
    primitives.check_exchange_key(primitives.ExchangeKey(fixed_key("one")).public)
