"""Groups stay together: no group is on two sides, whatever the partition, the seed and the shares."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fedloom.data as fd
from fedloom.core.errors import FedloomError
from fedloom.data.federation import Federation
from fedloom.data.leak_groups import PIECE_GAPS, Units, cut_windows
from support import small_tables

PARTITIONS = ("iid", "iid(true)", "dirichlet(0.1)", "dirichlet(5)", "shards(1)", "classes-per-client(2)", "power-law")


def sides(federation: Federation) -> np.ndarray:
    """The part of each sample (-1 for none): train, valid, test, global test, communal."""
    side = np.full(len(federation.columns["y"]), -1)
    parts = (federation.train.order, federation.valid.order, federation.test.order)
    for number, positions in enumerate((*parts, federation.global_test, federation.communal)):
        assert (side[positions] == -1).all()
        side[positions] = number
    return side


def assert_together(values: np.ndarray, group: np.ndarray) -> None:
    """All samples of a group have the same value; those of no part (-1) are left out."""
    inside = values >= 0
    pairs = set(zip(group[inside].tolist(), values[inside].tolist(), strict=True))
    assert len(pairs) == len(set(group[inside].tolist()))


def owners(federation: Federation) -> np.ndarray:
    owner = np.full(len(federation.columns["y"]), -1)
    for part in (federation.train, federation.valid, federation.test):
        owner[part.order] = part.owners
    return owner


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(PARTITIONS),
    st.integers(30, 250),
    st.integers(15, 60),
    st.integers(2, 6),
    st.sampled_from([(0.2, 0.0), (0.2, 0.1), (0.5, 0.3), (0.0, 0.2)]),
    st.integers(0, 50),
    st.data(),
)
def test_no_group_is_on_two_sides_or_with_two_clients(
    partition: str, count: int, groups: int, clients: int, shares: tuple[float, float], seed: int, data
) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    group = random.integers(0, groups, count)
    y = random.integers(0, 3, groups)[group]  # a label per group, and some that differ
    y = np.where(random.random(count) < data.draw(st.sampled_from([0.0, 0.3])), random.integers(0, 3, count), y)
    samples = fd.Samples({"x": torch.zeros(count, 1), "y": torch.from_numpy(y)}, 3, group=group)
    try:
        made = fd.federate(
            samples,
            fd.partitioner(partition),
            clients,
            seed=seed,
            test_share=shares[0],
            valid_share=shares[1],
            communal_share=0.1,
        )
    except FedloomError as error:
        assume(not any(word in str(error) for word in ("clients that hold it", "no training sample", "classes")))
        raise
    assert_together(sides(made), group)
    assert_together(owners(made), group)
    assert (made.train.sizes >= 1).all()
    held = [len(set(group[owners(made) == client].tolist())) for client in range(made.clients)]
    if shares[0]:
        assert all(made.test.sizes[client] >= 1 for client in range(made.clients) if held[client] >= 2)
    assert (sides(made) >= 0).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(20, 200), st.integers(5, 60), st.integers(0, 20), st.booleans())
def test_a_group_that_several_natural_clients_hold_is_on_one_side(
    count: int, groups: int, seed: int, apart: bool
) -> None:
    random = np.random.default_rng(seed)
    client = np.arange(count) % 4
    group = random.integers(0, groups, count)
    group = group * 4 + client if apart else group
    samples = {"x": np.zeros((count, 1)), "y": random.integers(0, 2, count), "client": client, "group": group}
    try:
        made = fd.from_arrays(**samples, classes=2, seed=seed, valid_share=0.1, communal_share=0.05)
    except FedloomError as error:  # another client's patient was this client's only one
        assume("no training sample" not in str(error))
        raise
    assert_together(sides(made), group)
    assert made.clients == 4


def test_shares_are_met_as_nearly_as_groups_allow() -> None:
    group = np.repeat(np.arange(200), 12)
    y = np.arange(200)[group] % 4
    made = fd.from_arrays(np.zeros((2400, 1)), y, group=group, clients=10, test_share=0.2, valid_share=0.1)
    parts = [int(part.sizes.sum()) for part in (made.train, made.valid, made.test)]
    assert len(made.global_test) == pytest.approx(0.15 * 2400, abs=4 * 6)
    whole = sum(parts)
    assert parts[2] == pytest.approx(0.2 * whole, abs=10 * 6)
    assert parts[1] == pytest.approx(0.1 * whole, abs=10 * 6)


def test_without_groups_a_unit_is_a_sample_and_groups_of_one_change_nothing() -> None:
    x, y = np.zeros((300, 1)), np.arange(300) % 5
    plain, alone = (
        fd.from_arrays(x, y, clients=7, partition="dirichlet(0.5)", valid_share=0.1, group=group)
        for group in (None, np.arange(300))
    )
    assert (sides(plain) == sides(alone)).all()
    assert (owners(plain) == owners(alone)).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 80), min_size=1, max_size=6), st.integers(1, 5), st.integers(0, 9))
def test_windows_of_two_pieces_do_not_overlap(lengths: list[int], gap: int, seed: int) -> None:
    blocks = np.repeat(np.arange(len(lengths)), lengths)
    blocks = np.random.default_rng(seed).permutation(len(lengths))[blocks]
    piece = cut_windows(blocks, gap)
    for one, two in itertools.combinations(range(len(blocks)), 2):
        if blocks[one] == blocks[two] and abs(two - one) <= gap and piece[one] >= 0 and piece[two] >= 0:
            assert piece[one] == piece[two]
        if blocks[one] != blocks[two] and piece[one] >= 0:
            assert piece[one] != piece[two]
    assert (piece >= 0).mean() >= PIECE_GAPS / (PIECE_GAPS + 1)


@pytest.mark.parametrize("partition", ["iid", "dirichlet(1)", "power-law"])
def test_overlapping_windows_are_divided_in_pieces_unless_clients_are_natural(partition: str) -> None:
    gap, blocks = 3, np.repeat(np.arange(30), 60)
    y = torch.from_numpy(blocks % 5)
    samples = fd.Samples({"x": torch.zeros(1800, 1), "y": y}, 5, natural=blocks // 5, blocks=blocks, gap=gap)
    made = fd.federate(samples, fd.partitioner(partition), 6, valid_share=0.1)
    for values in (sides(made), np.where(sides(made) == 3, 99, owners(made))):
        for near in range(1, gap + 1):
            both = (blocks[near:] == blocks[:-near]) & (values[near:] >= 0) & (values[:-near] >= 0)
            assert (values[near:] == values[:-near])[both].all()
    assert (sides(made) == -1).mean() < 0.2


def test_the_communal_set_takes_whole_groups_and_shares_none_with_the_test_sets() -> None:
    group = np.repeat(np.arange(60), 5)
    made = fd.from_arrays(np.zeros((300, 1)), group % 3, group=group, clients=4, global_share=0.4)
    communal = fd.with_communal(made, 7, seed=1)
    assert torch.bincount(made.columns["y"][communal.communal]).tolist() == [7] * 3
    assert_together(sides(communal), group)
    assert len(communal.global_test) == len(made.global_test) - 3 * 10  # two groups of five of each class left


def test_the_label_of_a_group_is_its_most_frequent_one() -> None:
    units = Units.among(np.array([7, 7, 7, 2, 2]), 5)
    assert units.labels(np.array([4, 1, 4, 3, 0])).tolist() == [0, 4]  # of group 2 (a tie) and of group 7


def test_a_partition_by_label_is_refused_where_labels_differ_within_groups() -> None:
    y, group = np.arange(300) % 10, np.arange(300) // 10
    with pytest.raises(FedloomError, match="differ within groups that stay together: use iid"):
        fd.from_arrays(np.zeros((300, 1)), y, group=group, clients=5, partition="dirichlet(0.1)")
    assert fd.from_arrays(np.zeros((300, 1)), y, group=group, clients=5).clients == 5


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"group": np.arange(9)}, r"groups of shape \(9,\): give one group each"),
        ({"group": np.where(np.arange(60) == 4, np.nan, 1.0)}, "row 5 has no group"),
        ({"group": [None] * 60}, r"60 rows \(1, 2, 3, 4, 5, \.\.\.\) have no group"),
        ({"partition": "quantities(20, 20)", "clients": 2}, "exact numbers of samples"),
        ({"clients": 21}, "only 16 groups of samples that stay together: use at most 16"),
        ({"client": np.arange(60) % 2, "own_test": np.arange(60) < 10}, "group of row 10 has samples inside and outs"),
    ],
)
def test_impossible_groups_are_refused(change: dict, reason: str) -> None:
    given_ = {"x": np.zeros((60, 1)), "y": np.arange(60) // 30, "group": np.arange(60) // 3}
    with pytest.raises(FedloomError, match=reason):
        fd.from_arrays(**{**given_, **change})


def patients_with_visits(path: Path) -> tuple[Path, np.ndarray]:
    """Sixty visits of twenty patients in three hospitals."""
    x, outcome = small_tables.patients()
    patient = np.arange(60) // 3
    rows = [[*map(float, row), outcome[i], f"p{patient[i]}", f"h{patient[i] % 3}"] for i, row in enumerate(x)]
    header = [*small_tables.FEATURES, "outcome", "patient", "hospital"]
    return small_tables.write_rows(path, header, rows), patient


def test_a_column_of_a_table_names_the_group(tmp_path: Path) -> None:
    path, patient = patients_with_visits(tmp_path / "visits.csv")
    made = fd.read(path, target="outcome", client="hospital", group="patient")
    assert made.columns["x"].shape == (60, 3)
    assert_together(sides(made), patient)
    with pytest.raises(FedloomError, match="no column 'patiet'"):
        fd.read(path, target="outcome", client="hospital", group="patiet")


def test_an_array_of_an_npz_file_and_a_parquet_column_name_the_group(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    from pyarrow import parquet

    x, y, patient = np.random.default_rng(0).random((60, 2)), np.arange(60) // 30, np.arange(60) // 3
    np.savez(tmp_path / "a.npz", x=x, y=y, patient=patient)
    columns = {"a": x[:, 0], "b": x[:, 1], "label": y, "patient": [f"p{number:02d}" for number in patient]}
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
    one, two = (fd.read(tmp_path / name, group="patient", clients=4) for name in ("a.npz", "a.parquet"))
    assert_together(sides(one), patient)
    assert (sides(one) == sides(two)).all()
    (tmp_path / "many").mkdir()
    with pytest.raises(FedloomError, match="has no columns; give a table"):
        fd.read(tmp_path / "many", group="patient")
