"""The runs of the study of label flipping: the document's settings, and what is read of a run."""

from __future__ import annotations

import pytest

from fedloom.config.resolve import method_from_config, resolve
from fedloom.reproduce.fedseq_flipping_runs import (
    BASELINE,
    CHAINS,
    CLIENTS,
    FEDAVG,
    FEDSEQ,
    SHARES,
    SWAPS,
    FlippingCell,
    SwapScores,
    cells,
    global_of,
    swapped_of,
    unattacked,
    values_of,
)
from fedloom.reproduce.robust_studies import Defence
from fedloom.rounds.hostile_clients import HostileClients
from fedloom.runs.prepare import hostile_clients

SUPERCLASSES = ((1, 73, 32, 67), (54, 62, 70, 82), (6, 7, 14, 18), (8, 13, 90, 48), (2, 11, 35, 98))
"""Fish, flowers, insects, vehicles and people of CIFAR-100, four of the five classes of each."""


def hostile(cell: FlippingCell, seed: int = 0) -> HostileClients | None:
    return hostile_clients(resolve({**values_of("cifar10", cell), "seed": seed}), CLIENTS)


@pytest.mark.parametrize("data", SWAPS)
def test_the_runs_have_names_of_their_own_and_configs_that_are_accepted(data):
    members = [member for _, member in cells(data)]
    assert len({one.folder_name for one in members}) == len({one.label for one in members}) == len(members) == 54
    for member in members:
        assert method_from_config(resolve(dict(member.values))) is not None


@pytest.mark.parametrize("share", SHARES)
def test_a_share_of_the_clients_is_hostile_and_of_fedseq_a_share_of_the_chains_with_all_their_members(share):
    swap = SWAPS["cifar10"][0]
    single, chained = (hostile(FlippingCell(method, share, swap)).members for method in (FEDAVG, FEDSEQ))
    assert len(single) == len(chained) == round(share * CLIENTS)
    whole = [chain for chain in CHAINS if set(chain) <= chained]
    assert sorted(client for chain in whole for client in chain) == sorted(chained)
    assert len(whole) == round(share * len(CHAINS))
    assert hostile(FlippingCell(FEDSEQ, share, swap), seed=1).members != chained


def test_nobody_is_hostile_where_l_is_0():
    assert hostile(FlippingCell(FEDAVG)) is hostile(FlippingCell(FEDSEQ)) is None


def test_the_documents_classes_are_swapped():
    pets, four = SWAPS["cifar10"][1:3]
    assert (pets.classes, four.classes) == (((5, 3),), ((0, 2, 5, 3),))
    extra, intra = SWAPS["cifar100"][0], SWAPS["cifar100"][2]
    assert intra.classes == SUPERCLASSES
    assert all(len({label for some in swap.classes for label in some}) == 20 for swap in (extra, intra))
    assert not any(len(set(extra.classes[0]) & set(one)) > 1 for one in SUPERCLASSES)


def test_rules_are_left_out_where_they_withstand_less_than_what_is_hostile():
    there = {cell.share for cell, _ in cells("cifar10") if cell.defence == Defence("krum") and cell.method == FEDSEQ}
    assert there == {0.0, 0.1, 0.3}
    assert {cell.share for cell, _ in cells("cifar10") if cell.defence == Defence("foolsgold")} == {0.0, *SHARES}


def test_means_are_over_cells_seed_by_seed_and_over_the_classes_of_a_swap():
    swap = SWAPS["cifar10"][0]
    one, other = FlippingCell(FEDAVG, 0.1, swap), FlippingCell(FEDAVG, 0.3, swap)
    results = {
        one: [SwapScores(0.5, {}, 0.4), SwapScores(0.6, {}, 0.2)],
        other: [SwapScores(0.3, {}, 0.2), SwapScores(0.2, {}, 0.0)],
        BASELINE: [SwapScores(0.1, {0: 1.0, 2: 0.0, 3: 0.7})] * 2,
    }
    assert global_of(results, one, other) == pytest.approx([0.4, 0.4])
    assert swapped_of(results, one, other) == pytest.approx([0.3, 0.1])
    assert unattacked(results, BASELINE, swap) == [0.5, 0.5]
