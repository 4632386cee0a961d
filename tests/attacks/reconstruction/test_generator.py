"""Generators make images of the task's size and range, and are nothing but their row."""

import pytest
import torch

from fedloom.attacks.reconstruction.generator import GeneratorKind


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (1, 2, 3), (2, 30, 17)])
def test_images_have_the_size_and_the_range(shape):
    kind = GeneratorKind(shape, -0.5, 2.0, latent=4, width=2)
    pictures = kind.pictures(20 * kind.new_row(0), 6)
    assert pictures.shape == (6, *shape)
    assert -0.5 <= float(pictures.min()) < float(pictures.max()) <= 2.0


def test_a_generator_is_its_row_and_the_noise_of_pictures_is_always_the_same():
    kind = GeneratorKind((1, 8, 8), 0.0, 1.0, latent=4, width=2)
    row = kind.new_row(3)
    assert torch.equal(kind.layout.row(kind.filled(row)), row)
    assert torch.equal(kind.pictures(row, 5), kind.pictures(row, 5))
    assert torch.equal(row, kind.new_row(3))
    assert not torch.equal(row, kind.new_row(4))


def test_new_weights_leave_the_shared_random_stream_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    GeneratorKind((1, 8, 8), 0.0, 1.0, latent=4, width=2).new_row(0)
    assert torch.equal(torch.rand(3), expected)
