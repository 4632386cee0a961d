"""Homomorphic sums."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.secure import ckks
from fedloom.secure.ckks import (
    ERROR,
    LARGEST_SUM,
    SLOTS,
    TEXT_BYTES,
    CkksAdder,
    CkksSite,
    encrypted_bytes,
    make_keys,
)
from fedloom.secure.sum_step import RefusedMessage

pytest.importorskip("tenseal", reason="needs TenSEAL")


@pytest.fixture(scope="module")
def keys() -> tuple[bytes, bytes]:
    return make_keys()


def encrypted_sum(keys: tuple[bytes, bytes], rows: torch.Tensor) -> np.ndarray:
    site, server = CkksSite(keys[0], max(2, len(rows))), CkksAdder(keys[1], rows.shape[1])
    for row in rows:
        server.add(site.encrypt(row))
    return server.total()


@settings(max_examples=15, deadline=None)
@given(
    sites=st.integers(2, 5),
    width=st.sampled_from([0, 1, 2, SLOTS - 1, SLOTS, SLOTS + 1]),
    size=st.floats(1e-9, LARGEST_SUM / 5),
    seed=st.integers(0, 99),
)
def test_a_sum_is_within_its_stated_error(keys, sites, width, size, seed):
    draw = torch.Generator().manual_seed(seed)
    rows = (2 * torch.rand(sites, width, generator=draw, dtype=torch.float64) - 1) * size
    total = encrypted_sum(keys, rows)
    assert total.nbytes == encrypted_bytes(width)
    restored = CkksSite(keys[0], sites).decrypt(total, width)
    assert restored.dtype == torch.float64
    assert ((restored - rows.sum(0)).abs() <= sites * ERROR).all()


@pytest.mark.parametrize("sites", [2, 10])
def test_values_at_the_edge_neither_wrap_nor_clip(keys, sites):
    edge = LARGEST_SUM / sites
    rows = torch.tensor([[edge, -edge, 0.0]] * sites, dtype=torch.float64)
    restored = CkksSite(keys[0], sites).decrypt(encrypted_sum(keys, rows), 3)
    assert (restored - torch.tensor([LARGEST_SUM, -LARGEST_SUM, 0.0])).abs().max() <= sites * ERROR


def test_the_noise_has_the_deviation_that_the_bound_is_made_of(keys):
    site = CkksSite(keys[0], 2)
    noise = site.decrypt(site.encrypt(torch.zeros(2 * SLOTS)), 2 * SLOTS)
    assert float(noise.std()) == pytest.approx(2**-40 * 3.2 * SLOTS**0.5, rel=0.1)
    assert float(noise.std()) < ERROR / 15


def test_the_server_needs_no_key_and_cannot_read(keys):
    secret, public = keys
    assert len(public) < 200 < len(secret)
    row = CkksSite(secret, 2).encrypt(torch.zeros(SLOTS))
    with pytest.raises(FedloomError, match="not a secret key"):
        CkksSite(public, 2)
    with pytest.raises(FedloomError, match="must stay with the sites"):
        CkksAdder(secret, SLOTS)
    with pytest.raises(ValueError, match="secret_key"):
        ckks._vector(CkksAdder(public, SLOTS)._context, ckks._part(row, SLOTS)[0]).decrypt()


def test_the_same_row_is_never_the_same_text(keys):
    site = CkksSite(keys[0], 2)
    one, other = (site.encrypt(torch.zeros(5)) for _ in range(2))
    assert (one != other).mean() > 0.9


def test_the_key_of_other_sites_does_not_open_a_sum(keys):
    total = encrypted_sum(keys, torch.ones(2, 5))
    with pytest.raises(RefusedMessage, match="not encrypted with the key of this site"):
        CkksSite(make_keys()[0], 2).decrypt(total, 5)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (torch.tensor([0.0, float("nan")]), "not finite"),
        (torch.tensor([float("-inf")]), "not finite"),
        (torch.tensor([LARGEST_SUM / 2 + 1]), "values up to 1.31e"),
        (torch.zeros(1, 2), "adds vectors"),
    ],
)
def test_rows_that_cannot_be_carried_are_refused(keys, row, sentence):
    with pytest.raises(FedloomError, match=sentence):
        CkksSite(keys[0], 2).encrypt(row)


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 90), st.binary(min_size=1, max_size=9))
@example(72, b"\0")  # a text that claims to be no transform
def test_a_row_that_is_refused_leaves_the_sum_as_it_was(keys, at, junk):
    site, server = CkksSite(keys[0], 2), CkksAdder(keys[1], 3)
    server.add(site.encrypt(torch.ones(3)))
    changed = site.encrypt(torch.ones(3))
    changed[at : at + len(junk)] = np.frombuffer(junk, dtype=np.uint8)
    try:
        server.add(changed)
    except RefusedMessage:
        assert (site.decrypt(server.total(), 3) - 1).abs().max() <= ERROR


@pytest.mark.parametrize(
    "row",
    [
        np.zeros(TEXT_BYTES, dtype=np.uint8),
        np.full(TEXT_BYTES, 255, dtype=np.uint8),
        np.zeros(TEXT_BYTES - 1, dtype=np.uint8),
        np.zeros(TEXT_BYTES),
        np.zeros(2 * TEXT_BYTES, dtype=np.uint8),
    ],
)
def test_rows_of_another_form_are_refused(keys, row):
    with pytest.raises(RefusedMessage):
        CkksAdder(keys[1], 3).add(row)


def test_a_text_of_another_scale_is_refused(keys):
    site = CkksSite(keys[0], 2)
    other = ckks.load_library().ckks_vector(site._context, np.zeros(SLOTS), 2.0**39)
    with pytest.raises(RefusedMessage, match="are not"):
        CkksAdder(keys[1], 3).add(ckks._join([other]))


def test_keys_that_are_damaged_sums_without_rows_and_one_site_are_refused(keys):
    for damaged in (b"", b"junk", keys[0][:100]):
        with pytest.raises(FedloomError, match="copy it again"):
            CkksSite(damaged, 2)
    with pytest.raises(FedloomError, match="without rows"):
        CkksAdder(keys[1], 3).total()
    with pytest.raises(FedloomError, match="at least two sites"):
        CkksSite(keys[0], 1)


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tenseal", None)
    with pytest.raises(FedloomError, match=r"pip install 'fedloom\[ckks\]'"):
        make_keys()
