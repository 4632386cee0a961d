"""The fast transform against the matrix of scipy."""

import pytest
import torch
from scipy.linalg import hadamard

from fedloom.channel.walsh_hadamard import walsh_hadamard


@pytest.mark.parametrize("size", [1, 2, 8, 256])
def test_it_is_the_product_with_hadamards_matrix_and_its_own_inverse(size):
    vectors = torch.randn(3, 2, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = vectors @ torch.from_numpy(hadamard(size)).double() / size**0.5
    assert torch.allclose(walsh_hadamard(vectors), expected)
    assert torch.allclose(walsh_hadamard(walsh_hadamard(vectors)), vectors)
