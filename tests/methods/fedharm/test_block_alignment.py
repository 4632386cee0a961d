"""Block alignment: histograms and divergences by hand, and maps that are found again."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.methods.fedharm.block_alignment import (
    align_blocks,
    align_histograms,
    angle_histogram,
    block_histograms,
    check_map,
    divergences,
    increasing_map,
    kl_divergence,
)
from fedloom.models import build


def test_a_histogram_of_angles_by_hand() -> None:
    """(1, 0) is at 0 and 90 degrees to the axes, (1, -1) at 45 and 135; four bins of 45 degrees start with a one."""
    maps = torch.tensor([[1.0, 0.0], [1.0, -1.0000001]])
    assert angle_histogram(maps, 4).tolist() == pytest.approx([2 / 8, 2 / 8, 2 / 8, 2 / 8])
    assert angle_histogram(maps[:1], 4).tolist() == pytest.approx([2 / 6, 1 / 6, 2 / 6, 1 / 6])


def test_a_map_of_zeros_is_at_right_angles_and_scale_does_not_matter() -> None:
    assert angle_histogram(torch.zeros(1, 3), 2).tolist() == pytest.approx([1 / 5, 4 / 5])
    maps = torch.randn(5, 2, 3, 3)
    assert torch.equal(angle_histogram(maps, 10), angle_histogram(8 * maps, 10))


def test_the_divergence_of_two_histograms_by_hand_and_by_scipy() -> None:
    p, q = torch.tensor([0.5, 0.5, 0.0]).double(), torch.tensor([0.25, 0.5, 0.25]).double()
    assert float(kl_divergence(p, q)) == pytest.approx(0.5 * math.log(2))
    assert float(kl_divergence(p, q)) == pytest.approx(entropy(p, q))
    assert float(kl_divergence(q, q)) == 0


@given(st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=1, max_size=4))
def test_the_increasing_map_is_the_best_of_all(rows: list[list[int]]) -> None:
    costs = torch.tensor(rows).double()
    best = min(
        itertools.combinations(range(4), len(rows)),
        key=lambda pick: (sum(rows[i][j] for i, j in enumerate(pick)),),
    )
    found = increasing_map(costs)
    assert list(found) == sorted(set(found))
    assert sum(rows[i][j] for i, j in enumerate(found)) == sum(rows[i][j] for i, j in enumerate(best))


def test_a_network_is_aligned_with_itself_by_the_identity() -> None:
    x = torch.randn(16, 1, 16, 16)
    model = build("mini-mobilenet", (1, 16, 16), 3, 0)
    own = block_histograms(model, x)
    apart = divergences(own, own)
    assert torch.equal(apart.argmin(1), torch.arange(7))  # also without the order of blocks
    assert torch.equal(apart.diagonal(), torch.zeros(7).double())
    assert align_blocks(model, model, x) == (1, 2, 3, 4, 5, 6, 7)


def test_some_blocks_of_a_network_are_found_again_in_it() -> None:
    x = torch.randn(16, 1, 16, 16)
    model = build("mini-efficientnet", (1, 16, 16), 3, 0)
    whole = block_histograms(model, x)
    assert align_histograms(whole[[0, 2, 5, 6]], whole) == (1, 3, 6, 7)


def test_noise_of_the_same_shapes_is_aligned_by_its_shapes_and_signs() -> None:
    """What docs/reproduce.md says of the maps of trained networks; blocks of one shape (2 and 3, 4 and 5) are alike."""
    torch.manual_seed(0)
    resnet = [(8, 16, 16), (16, 8, 8), (24, 4, 4), (32, 2, 2)]
    mobilenet = [(8, 16, 16), (8, 8, 8), (8, 8, 8), (16, 4, 4), (16, 4, 4), (24, 4, 4), (32, 2, 2)]
    efficientnet = [(8, 16, 16), (8, 8, 8), (8, 4, 4), (16, 4, 4), (16, 4, 4), (24, 2, 2), (32, 2, 2)]
    rectified = torch.stack([angle_histogram(torch.randn(150, *shape).relu(), 100) for shape in resnet])
    plain = torch.stack([angle_histogram(torch.randn(150, *shape), 100) for shape in efficientnet])
    assert align_histograms(rectified, plain) == (1, 2, 4, 5)
    both = torch.stack([angle_histogram(torch.randn(150, *shape).relu(), 100) for shape in mobilenet])
    assert align_histograms(rectified, both) in {(1, 2, 6, 7), (1, 3, 6, 7)}


def test_aligning_does_not_change_the_models_mode_and_refuses_the_wrong_order() -> None:
    small, large = (build(name, (1, 8, 8), 3, 0) for name in ("resnet8", "mini-mobilenet"))
    large.train()
    found = align_blocks(small, large, torch.randn(4, 1, 8, 8), bins=20)
    assert len(found) == 3
    assert large.training
    with pytest.raises(FedloomError, match="7 blocks cannot be aligned to one of 3"):
        align_blocks(large, small, torch.randn(4, 1, 8, 8))
    with pytest.raises(FedloomError, match="bins=1: a histogram"):
        align_blocks(small, large, torch.randn(4, 1, 8, 8), bins=1)
    with pytest.raises(FedloomError, match="names no stages"):
        align_blocks(nn.Sequential(nn.Linear(2, 2)), large, torch.randn(4, 2))


@pytest.mark.parametrize("blocks", [(), (0, 1), (1, 8), (2, 2), (3, 1)])
def test_a_map_that_a_network_cannot_have_is_refused(blocks: tuple[int, ...]) -> None:
    with pytest.raises(FedloomError, match="give increasing numbers from 1 to 7"):
        check_map("mini-mobilenet", blocks, 7)
