"""Gaussian noise: as long as the update it replaces, and drawn by each client."""

import pytest
import torch

import fedloom as fl


class FakeCohort:
    def __len__(self):
        return 2

    def generator(self, purpose, place):
        return torch.Generator().manual_seed(place)


def test_noise_is_as_long_as_the_update_times_the_scale():
    changes = torch.stack([torch.ones(40_000), torch.full((40_000,), 3.0)])
    noise = fl.GaussianNoise(scale=2.0).poison_update("row", changes, FakeCohort(), None)
    assert (noise.norm(dim=1) / changes.norm(dim=1)).tolist() == pytest.approx([2.0, 2.0], rel=0.02)
    assert abs(float(torch.cosine_similarity(noise[0], noise[1], dim=0))) < 0.02
    assert noise.mean(1).abs().max() < 0.1


def test_a_zero_update_stays_zero():
    assert not fl.GaussianNoise().poison_update("row", torch.zeros(2, 10), FakeCohort(), None).any()
