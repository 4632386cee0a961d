"""Partitioners: every sample at most once, the sizes that were asked for, the skew that was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom.data as fd
from fedloom.core.errors import FedloomError
from fedloom.data.partition.base import Partition
from fedloom.data.partition.label_skew import Dirichlet

quick = settings(max_examples=20, deadline=None)


def some_labels(samples: int, classes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, classes, samples)


def flat(parts: list[np.ndarray]) -> np.ndarray:
    return np.sort(np.concatenate(parts))


@quick
@given(st.integers(2, 400), st.integers(1, 12), st.integers(0, 5), st.data())
@pytest.mark.parametrize(
    "made", [fd.iid(), fd.iid(stratified=True), fd.dirichlet(0.1), fd.dirichlet(0), fd.dirichlet(5.0), fd.power_law()]
)
def test_every_sample_has_exactly_one_owner(made: Partition, samples: int, classes: int, seed: int, data) -> None:
    clients = data.draw(st.integers(1, samples))
    parts = made(some_labels(samples, classes, seed), clients, seed)
    assert len(parts) == clients
    assert (flat(parts) == np.arange(samples)).all()
    assert min(map(len, parts)) >= 1
    assert all((np.diff(part) > 0).all() for part in parts)


@quick
@given(st.integers(20, 2000), st.integers(1, 40), st.sampled_from([0.01, 0.1, 1.0, 100.0]), st.integers(0, 3))
def test_dirichlet_respects_the_minimum_or_half_the_mean(samples: int, clients: int, alpha: float, seed: int) -> None:
    clients = min(clients, samples)
    parts = Dirichlet(alpha)(some_labels(samples, 10, seed), clients, seed)
    assert min(map(len, parts)) >= min(10, max(1, samples // (2 * clients)))


@pytest.mark.parametrize(("alpha", "clients"), [(0.5, 10), (1.0, 20), (10.0, 10)])
def test_no_class_is_more_concentrated_than_another(alpha: float, clients: int) -> None:
    """The variance of a class's shares over clients is that of Dir(alpha), and 1.5 times as much at most.

    The cap on sizes concentrates the classes that are divided last: in the order of labels, the last one has 2 to 3
    times the variance.
    """
    totals, draws = np.full(10, 1000), 300
    random = np.random.default_rng(0)
    shares = np.stack([Dirichlet(alpha)._draw(totals, clients, random) for _ in range(draws)]) / 1000
    theory = (1 / clients) * (1 - 1 / clients) / (clients * alpha + 1)
    ratio = ((shares - 1 / clients) ** 2).mean((0, 1)) / theory
    assert ratio.min() > 0.9
    assert ratio.max() < 1.5
    assert ratio.max() / ratio.min() < 1.4


def test_a_large_alpha_gives_everyone_the_same_mix() -> None:
    labels = np.repeat(np.arange(10), 1000)
    for part in fd.dirichlet(1e5)(labels, 10, 0):
        assert np.abs(np.bincount(labels[part], minlength=10) - 100).max() < 12


def test_alpha_zero_gives_one_class_per_client() -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 50))
    for part in fd.dirichlet(0)(labels, 50, 1):
        assert len(part) == 10
        assert len(set(labels[part])) == 1


def test_a_smaller_alpha_is_a_stronger_skew() -> None:
    labels = np.repeat(np.arange(10), 500)

    def classes_per_client(alpha: float) -> float:
        return float(np.mean([len(set(labels[part])) for part in fd.dirichlet(alpha)(labels, 20, 0)]))

    assert classes_per_client(0.05) < classes_per_client(0.5) < classes_per_client(10) <= 10


def test_the_largest_dirichlet_clients_are_capped_near_the_mean_when_classes_are_many() -> None:
    labels = np.repeat(np.arange(100), 100)
    sizes = [len(part) for part in fd.dirichlet(0.5)(labels, 20, 0)]
    assert max(sizes) <= 500 + 100


def test_the_most_even_draw_is_more_even() -> None:
    labels = np.repeat(np.arange(10), 100)
    plain, even = (Dirichlet(0.2, most_even=most)(labels, 20, 0) for most in (False, True))
    assert np.std([len(part) for part in even]) < np.std([len(part) for part in plain])


def test_the_seed_decides_and_nothing_else() -> None:
    labels = some_labels(300, 10, 0)
    for made in (fd.iid(), fd.dirichlet(0.3), fd.shards(2), fd.power_law()):
        one, same, other = made(labels, 10, 1), made(labels, 10, 1), made(labels, 10, 2)
        assert all((a == b).all() for a, b in zip(one, same, strict=True))
        assert any(len(a) != len(b) or (a != b).any() for a, b in zip(one, other, strict=True))


def test_stratified_shares_hold_the_classes_in_equal_parts() -> None:
    labels = np.repeat(np.arange(5), 20)
    for part in fd.iid(stratified=True)(labels, 10, 0):
        assert np.bincount(labels[part], minlength=5).tolist() == [2] * 5


def test_shards_give_each_client_at_most_its_number_of_classes() -> None:
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 100))
    parts = fd.shards(2)(labels, 50, 0)
    assert (flat(parts) == np.arange(1000)).all()
    assert {len(part) for part in parts} == {20}
    assert max(len(set(labels[part])) for part in parts) <= 2


@quick
@given(st.integers(1, 10), st.integers(1, 30), st.integers(0, 3))
def test_classes_per_client_is_exact(per_client: int, clients: int, seed: int) -> None:
    labels = np.repeat(np.arange(10), 60)
    parts = fd.classes_per_client(per_client)(labels, clients, seed)
    assert all(len(set(labels[part])) == per_client for part in parts)
    assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))


def test_quantities_are_met_to_the_sample() -> None:
    sizes = [1035, 3080, 2075, 1569, 2895, 809, 898, 3997, 2459, 1528]  # the intense split of the NER study
    parts = fd.quantities(sizes)(np.zeros(20_345, dtype=np.int64), None, 0)
    assert [len(part) for part in parts] == sizes
    assert (flat(parts) == np.arange(20_345)).all()


def test_a_power_law_falls_by_rank() -> None:
    sizes = sorted((len(p) for p in fd.power_law(1.0)(np.zeros(10_000, dtype=np.int64), 50, 0)), reverse=True)
    assert sizes[0] / sizes[9] == pytest.approx(10, rel=0.1)
    assert len(set(map(len, fd.power_law(0)(np.zeros(1000, dtype=np.int64), 10, 0)))) == 1


def test_natural_clients_are_the_keys_with_enough_samples() -> None:
    keys = np.array([0] * 5 + [1] * 2 + [2] * 7 + [4] * 5)
    labels = np.zeros(len(keys), dtype=np.int64)
    parts = fd.natural(3)(labels, None, 0, keys)
    assert [set(keys[part]) for part in parts] == [{0}, {2}, {4}]
    chosen = fd.natural(3)(labels, 2, 0, keys)
    assert len(chosen) == 2
    assert {int(keys[part[0]]) for part in chosen} < {0, 2, 4}


@pytest.mark.parametrize(
    ("made", "labels", "clients", "message"),
    [
        (fd.iid(), np.zeros(5, dtype=np.int64), 6, "clients=6 is more than the 5 samples"),
        (fd.iid(), np.zeros(5, dtype=np.int64), 0, "at least one client"),
        (fd.iid(), np.zeros(5, dtype=np.int64), None, "number of clients is missing"),
        (fd.natural(), np.zeros(5, dtype=np.int64), None, "needs a client key"),
        (fd.dirichlet(1), np.zeros((5, 2), dtype=np.int64), 2, "targets are sequences"),
        (fd.shards(3), np.zeros(5, dtype=np.int64), 2, "more than the 5 samples"),
        (fd.classes_per_client(3), np.zeros(5, dtype=np.int64), 2, "only 1 classes"),
        (fd.quantities([3, 3]), np.zeros(5, dtype=np.int64), None, "add up to 6"),
        (fd.quantities([3, 1]), np.zeros(5, dtype=np.int64), 3, "names 2 sizes"),
    ],
)
def test_impossible_requests_are_refused_in_a_sentence(made, labels, clients, message: str) -> None:
    with pytest.raises(FedloomError, match=message):
        made(labels, clients, 0)


def test_more_natural_clients_than_there_are_is_refused_with_both_numbers() -> None:
    with pytest.raises(FedloomError, match="clients=9, but only 2 natural clients"):
        fd.natural()(np.zeros(4, dtype=np.int64), 9, 0, np.array([0, 0, 1, 1]))


@pytest.mark.parametrize("text", ["dirichlet(0.1)", "Dirichlet( 0.1 , 5)", "iid", "power_law(1.5)", "quantities(3, 4)"])
def test_a_config_gives_the_same_partitioner_back(text: str) -> None:
    made = fd.partitioner(text)
    assert fd.partitioner(fd.partition_config(made)) == made


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dirichlt(0.1)", "Did you mean 'dirichlet'"),
        ("dirichlet(x)", "'x' is not a number"),
        ("dirichlet", "needs a value for alpha"),
        ("dirichlet(-1)", "alpha=-1"),
        ({"name": "dirichlet", "alfa": 1}, "Did you mean 'alpha'"),
        ("a b", "write a name"),
    ],
)
def test_a_wrong_partition_is_refused_in_a_sentence(spec, message: str) -> None:
    with pytest.raises(FedloomError, match=message):
        fd.partitioner(spec)
