"""Who sees which samples: a client's batches do not depend on its neighbours, and padding is rare."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.core.local_work import LocalWork
from fedloom.training.batches import Assignment, BatchStep, interleave, lockstep

SIZES = st.lists(st.integers(1, 90), min_size=1, max_size=7)
WORKS = st.builds(
    LocalWork,
    epochs=st.integers(1, 3),
    steps=st.none() | st.integers(1, 9),
    batch_size=st.sampled_from([0, 1, 7, 16, 32]),
    partial=st.sampled_from([0.0, 0.7]),
)


def assignments(sizes, work):
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    return [
        Assignment.of(k, torch.arange(a, a + n), work, 5, 2) for k, (a, n) in enumerate(zip(starts, sizes, strict=True))
    ]


def batches_of(steps: list[BatchStep], clients: int) -> list[list[list[int]]]:
    """The batches that each client sees in a cohort's steps, padding removed."""
    seen: list[list[list[int]]] = [[] for _ in range(clients)]
    for step in steps:
        places = range(step.rows) if isinstance(step.rows, int) else step.rows.tolist()
        for i, place in enumerate(places):
            real = step.positions.shape[1] if step.mask is None else int(step.mask[i].sum())
            if real:
                seen[place].append(step.positions[i, :real].tolist())
    return seen


@settings(deadline=None, max_examples=150)
@given(SIZES, WORKS)
def test_a_client_sees_beside_others_exactly_the_batches_it_sees_alone(sizes, work):
    sizes = sorted(sizes, reverse=True)
    alone = [[batch.tolist() for batch in one] for one in assignments(sizes, work)]
    assert batches_of(list(interleave(assignments(sizes, work))), len(sizes)) == alone
    assert batches_of(list(lockstep(assignments(sizes, work))), len(sizes)) == alone


@settings(deadline=None, max_examples=100)
@given(SIZES, st.integers(1, 3), st.sampled_from([8, 32]))
def test_an_epoch_sees_every_sample_once_with_the_partial_batch_last(sizes, epochs, batch_size):
    work = LocalWork(epochs=epochs, batch_size=batch_size)
    for one in assignments(sizes, work):
        seen = [batch.tolist() for batch in one]
        per_epoch = len(seen) // epochs
        for e in range(epochs):
            epoch = seen[e * per_epoch : (e + 1) * per_epoch]
            assert sorted(p for batch in epoch for p in batch) == one.positions.tolist()
            assert all(len(batch) == batch_size for batch in epoch[:-1])


def test_padding_wastes_a_small_share_of_compute():
    generator = torch.Generator().manual_seed(0)
    sizes = sorted((10 ** (1 + 1.7 * torch.rand(100, generator=generator))).int().tolist(), reverse=True)
    steps = list(interleave(assignments(sizes, LocalWork(batch_size=32))))
    computed = sum(step.positions.numel() for step in steps)
    assert computed / sum(sizes) < 1.05


def test_fixed_steps_go_on_into_the_next_epoch():
    one = assignments([10], LocalWork(steps=5, batch_size=4))[0]
    assert [len(batch) for batch in one] == [4, 4, 2, 4, 4]


def test_partial_work_is_some_of_the_full_work_and_only_for_some():
    full = LocalWork(epochs=5, batch_size=4)
    part = LocalWork(epochs=5, batch_size=4, partial=0.5)
    whole = [one.steps for one in assignments([20] * 40, full)]
    some = [one.steps for one in assignments([20] * 40, part)]
    assert all(1 <= s <= w for s, w in zip(some, whole, strict=True))
    assert 8 <= sum(s < w for s, w in zip(some, whole, strict=True)) <= 32
