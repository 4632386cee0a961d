"""PSNR and SSIM: by hand, by the formula in loops, and as scikit-image has them where it is installed."""

import math

import numpy as np
import pytest
import torch

from fedloom.attacks.measures.likeness import psnr, ssim


def test_psnr_by_hand():
    original = torch.zeros(2, 1, 2, 2)
    rebuilt = torch.stack([torch.full((1, 2, 2), 0.1), torch.tensor([[[0.0, 0.0], [0.0, 0.2]]])])
    # mean squared errors 0.01 and 0.01, of a range of 1: 20 dB; of a range of 2: 26 dB
    torch.testing.assert_close(psnr(rebuilt, original, 1.0).float(), torch.tensor([20.0, 20.0]))
    assert float(psnr(rebuilt, original, 2.0)[0]) == pytest.approx(20 + 20 * math.log10(2), abs=1e-5)
    assert torch.isinf(psnr(original, original, 1.0)).all()


def ssim_in_loops(a: np.ndarray, b: np.ndarray, peak: float, side: int = 7) -> float:
    """The formula of the paper, window by window."""
    found = []
    for top in range(a.shape[0] - side + 1):
        for left in range(a.shape[1] - side + 1):
            x, y = (image[top : top + side, left : left + side].ravel() for image in (a, b))
            covariance = np.cov(x, y)
            c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
            above = (2 * x.mean() * y.mean() + c1) * (2 * covariance[0, 1] + c2)
            below = (x.mean() ** 2 + y.mean() ** 2 + c1) * (covariance[0, 0] + covariance[1, 1] + c2)
            found.append(above / below)
    return float(np.mean(found))


@pytest.mark.parametrize(("height", "width"), [(8, 8), (12, 9), (5, 5)])
def test_ssim_is_the_papers_formula(height, width):
    a, b = torch.rand(2, 3, 1, height, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    b = 0.7 * a + 0.3 * b
    by_loops = [ssim_in_loops(x[0].numpy(), y[0].numpy(), 1.0, min(7, height)) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(ssim(a, b, 1.0).numpy(), by_loops, rtol=1e-9)
    assert (ssim(a, b, 1.0) < 1).all()
    torch.testing.assert_close(ssim(a, a, 1.0), torch.ones(3, dtype=torch.float64))


def test_ssim_is_scikit_images():
    metrics = pytest.importorskip("skimage.metrics")
    a, b = torch.rand(2, 1, 1, 16, 16, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    theirs = metrics.structural_similarity(a[0, 0].numpy(), b[0, 0].numpy(), data_range=1.0)
    assert float(ssim(a, b, 1.0)) == pytest.approx(theirs, rel=1e-7)
