"""A share of every client's training samples leaves it: evenly over classes, whole groups, and no leak."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom.data as fd
from fedloom.core.errors import FedloomError
from fedloom.data.carve import carve, every_nth


@settings(max_examples=40, deadline=None)
@given(
    st.integers(30, 200),
    st.integers(1, 6),
    st.integers(1, 8),
    st.floats(0.05, 0.9),
    st.sampled_from([0.0, 0.1]),
    st.integers(0, 99),
)
def test_what_is_carved_leaves_all_parts_whole_groups_together_and_everybody_keeps_a_sample(
    samples, clients, group_size, share, valid, seed
):
    group = np.arange(samples) // group_size
    if group.max() + 1 < 4 * clients:
        return
    y = np.random.default_rng(seed).integers(0, 3, samples)
    made = fd.from_arrays(
        np.arange(samples)[:, None], y, group=group, classes=3, clients=clients, seed=seed, valid_share=valid
    )
    several = torch.tensor([len(set(group[made.train[k].numpy()])) > 1 for k in range(clients)])
    if not several.any():
        with pytest.raises(FedloomError, match="no client can spare a training sample"):
            carve(made, share, "communal", seed)
        return
    left, chosen = carve(made, share, "communal", seed)
    taken = set(group[chosen.numpy()])
    for part in (left.train.order, left.valid.order, left.test.order, left.global_test):
        assert not taken & set(group[part.numpy()])
    assert sorted(torch.cat([chosen, left.train.order]).tolist()) == sorted(made.train.order.tolist())
    assert torch.equal(left.test.order, made.test.order)
    assert int(left.train.sizes.min()) >= 1
    assert bool((left.train.sizes < made.train.sizes)[several].all())  # everybody who can gives something


@given(st.integers(2, 300), st.floats(0.01, 0.99), st.integers(0, 99))
def test_each_class_gives_its_share_to_within_one_sample(samples, share, seed):
    labels = np.random.default_rng(seed).integers(0, 4, samples)
    positions = np.arange(samples)
    chosen = every_nth(positions, labels, positions, share, np.random.default_rng(seed))
    assert len(chosen) == min(max(1, int(samples * share + 0.5)), samples - 1)
    whole = len(chosen) / samples
    for label in range(4):
        assert abs((labels[chosen] == label).sum() - whole * (labels == label).sum()) <= 1


def test_windows_that_share_a_group_with_test_windows_are_refused():
    blocks = np.repeat(np.arange(3), 60)
    samples = fd.Samples(
        {"x": torch.zeros(180, 1), "y": torch.from_numpy(blocks)}, 3, natural=blocks, blocks=blocks, gap=3
    )
    made = fd.federate(samples, fd.natural())
    with pytest.raises(FedloomError, match="communal: training samples overlap test samples"):
        carve(made, 0.2, "communal", 0)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5])
def test_a_share_that_cannot_be_is_refused(share):
    made = fd.from_arrays(np.zeros((40, 1)), np.arange(40) % 2, clients=2)
    with pytest.raises(FedloomError, match=f"communal: share={share}: it must be above 0 and less than 1"):
        carve(made, share, "communal", 0)


def test_clients_with_one_sample_each_can_spare_none():
    made = fd.from_arrays(np.zeros((8, 1)), np.arange(8) % 2, np.arange(8) // 2, test_share=0.5, global_share=0.0)
    assert made.train.sizes.tolist() == [1] * 4
    with pytest.raises(FedloomError, match="no client can spare a training sample"):
        carve(made, 0.5, "server_set", 0)
