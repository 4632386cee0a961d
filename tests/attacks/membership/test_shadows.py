"""Shadow models: halves of the pool, each sample in half of the models, the same by the same seed."""

import torch

from fedloom.attacks.membership.shadows import train_shadows


def test_every_sample_is_in_half_of_the_models_and_each_model_got_its_half():
    given = []

    def train(positions, seed):
        given.append((positions, seed))
        return torch.full((3,), float(seed))

    pool = torch.arange(100, 111)
    found = train_shadows(pool, 6, train)
    assert found.inside.sum(0).tolist() == [3] * 11
    assert found.rows[:, 0].tolist() == [1, 2, 3, 4, 5, 6]
    for (positions, _), inside in zip(given, found.inside, strict=True):
        assert positions.tolist() == pool[inside].tolist()


def test_halves_are_drawn_by_the_seed():
    pool = torch.arange(30)
    halves = [train_shadows(pool, 2, lambda *_: torch.zeros(1), seed).inside for seed in (0, 0, 1)]
    assert torch.equal(halves[0], halves[1])
    assert not torch.equal(halves[0], halves[2])
    assert len(train_shadows(pool, 3, lambda *_: torch.zeros(1)).rows) == 3
