"""Federations from columns: nothing twice, nothing lost, no column copied, fast for a hundred thousand clients."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom.data as fd
from fedloom.core.errors import FedloomError


def samples(count: int, classes: int = 5, **more) -> fd.Samples:
    y = torch.from_numpy(np.random.default_rng(0).integers(0, classes, count))
    return fd.Samples({"x": torch.arange(count, dtype=torch.float32)[:, None], "y": y}, classes, **more)


def everything(federation: fd.Federation) -> np.ndarray:
    parts = [federation.train.order, federation.valid.order, federation.test.order]
    return torch.cat([*parts, federation.global_test, federation.communal]).numpy()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(20, 300),
    st.integers(1, 15),
    st.sampled_from([0.0, 0.2, 0.5]),
    st.sampled_from([0.0, 0.1]),
    st.integers(0, 4),
)
def test_each_sample_is_in_exactly_one_part(count: int, clients: int, test: float, valid: float, seed: int) -> None:
    made = fd.federate(
        samples(count), fd.iid(), clients, seed=seed, test_share=test, valid_share=valid, communal_share=0.05
    )
    assert (np.sort(everything(made)) == np.arange(count)).all()
    whole = made.train.sizes + made.valid.sizes + made.test.sizes
    assert (made.train.sizes >= 1).all()
    if test:
        assert (made.test.sizes[whole >= 2] >= 1).all()


def test_shares_are_what_was_asked_for() -> None:
    made = fd.federate(samples(1000), fd.iid(), 10, test_share=0.2, valid_share=0.1, communal_share=0.1)
    assert len(made.global_test) == pytest.approx(150, abs=3)
    assert len(made.communal) == pytest.approx(85, abs=3)
    assert int(made.test.sizes.sum()) == pytest.approx(153, abs=6)
    assert int(made.valid.sizes.sum()) == pytest.approx(77, abs=6)


def test_the_held_out_test_set_is_stratified() -> None:
    given_ = samples(1000)
    made = fd.federate(given_, fd.dirichlet(0.1), 10)
    whole = np.bincount(given_.columns["y"], minlength=5)
    assert np.abs(np.bincount(given_.columns["y"][made.global_test], minlength=5) - 0.15 * whole).max() <= 1


def test_an_official_test_set_is_the_global_one() -> None:
    made = fd.federate(samples(100, global_test=np.arange(80, 100)), fd.iid(), 4)
    assert made.global_test.tolist() == list(range(80, 100))
    assert made.train.order.max() < 80


def test_columns_are_not_copied() -> None:
    given_ = samples(100)
    made = fd.federate(given_, fd.iid(), 4)
    assert made.columns["x"].data_ptr() == given_.columns["x"].data_ptr()


def test_the_split_of_a_sample_does_not_depend_on_the_number_of_clients() -> None:
    few, many = (fd.federate(samples(400), fd.iid(), clients) for clients in (2, 20))
    assert few.global_test.equal(many.global_test)


def test_overlapping_windows_never_share_content_between_the_parts() -> None:
    keys = np.repeat(np.arange(6), 50)
    given_ = samples(300, natural=keys, names=list("abcdef"), blocks=keys, gap=3)
    made = fd.federate(given_, fd.natural(), valid_share=0.1)
    assert list(made.names) == list("abcdef")
    for client in range(6):
        train, valid, test = (part[client] for part in (made.train, made.valid, made.test))
        last = made.global_test[(made.global_test >= client * 50) & (made.global_test < client * 50 + 50)]
        assert valid.min() - train.max() > 3
        assert test.min() - valid.max() > 3
        assert last.min() - test.max() > 3


def test_published_test_marks_are_kept() -> None:
    marks = np.tile([False, False, False, True], 10)
    made = fd.federate(samples(40, natural=np.repeat([0, 1], 20), own_test=marks), fd.natural())
    assert sorted(made.test.order.tolist()) == np.flatnonzero(marks).tolist()
    assert made.global_test.tolist() == np.flatnonzero(marks).tolist()
    assert made.names == ["0", "1"]


def test_counts_are_the_table_of_clients_and_classes() -> None:
    made = fd.federate(samples(200), fd.dirichlet(0.3), 8)
    labels = made.columns["y"]
    for client, row in enumerate(made.counts()):
        assert row.tolist() == np.bincount(labels[made.train[client]], minlength=5).tolist()


@pytest.mark.slow
def test_a_hundred_thousand_clients_take_seconds_and_no_memory() -> None:
    count, clients = 2_000_000, 100_000
    y = torch.arange(count) % 10
    start = time.process_time()
    made = fd.federate(fd.Samples({"x": torch.zeros(1, 1).expand(count, 1), "y": y}, 10), fd.iid(), clients)
    assert time.process_time() - start < 15
    held = sum(t.numel() for part in (made.train, made.valid, made.test) for t in (part.order, part.starts))
    assert held + len(made.global_test) <= 1.2 * count
    assert made.counts().sum() == made.train.sizes.sum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test_share": 1.0}, "test_share=1.0"),
        ({"test_share": 0.6, "valid_share": 0.5}, "leave nothing for training"),
        ({"global_share": -0.1}, "global_share=-0.1"),
        ({"clients": 500}, "clients=500 is more than"),
    ],
)
def test_impossible_shares_are_refused(change: dict, message: str) -> None:
    with pytest.raises(FedloomError, match=message):
        fd.federate(samples(50), fd.iid(), **{"clients": 5, **change})


def test_labels_out_of_range_name_the_sample() -> None:
    bad = fd.Samples({"x": torch.zeros(3, 1), "y": torch.tensor([0, 1, 7])}, 5)
    with pytest.raises(FedloomError, match="label 7 of sample 3 is out of range"):
        fd.federate(bad, fd.iid(), 2)


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(FedloomError, match="x has 3, y has 2"):
        fd.federate(fd.Samples({"x": torch.zeros(3, 1), "y": torch.tensor([0, 1])}, 2), fd.iid(), 2)


def test_a_partitioner_of_ones_own_is_a_function() -> None:
    def halves(labels, clients, seed, natural):
        del clients, seed, natural
        return np.array_split(np.arange(len(labels)), 2)

    made = fd.federate(samples(40), halves, global_share=0.0)
    assert made.train[0].max() < 20 <= made.train[1].min()
    with pytest.raises(FedloomError, match="give each sample once"):
        fd.federate(samples(40), lambda *_: [np.arange(5), np.arange(4, 9)])


def test_feature_skew_changes_clients_and_not_the_global_test_set() -> None:
    made = fd.load("digits", clients=5, partition="iid")
    for kind in ("noise", "brightness", "turn"):
        skewed = fd.with_feature_skew(made, kind, 0.3, seed=1)
        again = fd.with_feature_skew(made, kind, 0.3, seed=1)
        old, new = made.columns["x"], skewed.columns["x"]
        assert new[made.global_test].equal(old[made.global_test])
        assert not new[made.train.order].equal(old[made.train.order])
        assert new.equal(again.columns["x"])
    with pytest.raises(FedloomError, match="Did you mean 'noise'"):
        fd.with_feature_skew(made, "noize")
