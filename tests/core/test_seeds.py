"""Randomness keyed by purpose and place."""

import torch

from fedloom.core.seeds import generator, key, numpy_generator, secret_generator


def test_the_same_place_gives_the_same_numbers_and_another_place_others():
    assert torch.equal(
        torch.rand(5, generator=generator(1, "x", 2, 3)), torch.rand(5, generator=generator(1, "x", 2, 3))
    )
    keys = {key(seed, purpose, r, c) for seed in (0, 1) for purpose in "ab" for r in range(10) for c in range(10)}
    assert len(keys) == 400
    assert key(1, "a", 23) != key(1, "a", 2, 3)
    assert numpy_generator(1, "x").integers(1 << 40) == numpy_generator(1, "x").integers(1 << 40)


def test_a_secret_generator_repeats_nothing():
    assert len({int(secret_generator().integers(1 << 62)) for _ in range(50)}) == 50
