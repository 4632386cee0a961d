"""How like two images are: PSNR, and SSIM.

``PSNR = 10 log10(peak² / mean((a - b)²))`` in dB, where ``peak`` is the range of values. Above 20 dB people recognise a
small image; a blank one has about 10.

SSIM compares mean, spread and structure in a sliding window:
``(2 m_a m_b + c1)(2 s_ab + c2) / ((m_a² + m_b² + c1)(s_a² + s_b² + c2))``, c1 = (0.01 peak)² and c2 = (0.03 peak)².
Wang, Bovik, Sheikh and Simoncelli, Image Quality Assessment: From Error Visibility to Structural Similarity, IEEE TIP
2004, https://doi.org/10.1109/TIP.2003.819861. As in scikit-image the window is a square of 7 with equal weights, and
variances are of samples; of images that are smaller than 7 the window is as large as they are.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

WINDOW = 7


def psnr(rebuilt: Tensor, originals: Tensor, peak: float) -> Tensor:
    """The PSNR in dB of each sample; infinite where there is no difference.

    Args:
        rebuilt: Samples of any shape.
        originals: As many of the same shape.
        peak: The range of their values.
    """
    error = (rebuilt - originals).double().flatten(1).square().mean(1)
    return 10 * (peak**2 / error).log10()


def ssim(rebuilt: Tensor, originals: Tensor, peak: float) -> Tensor:
    """The SSIM of each image, at most 1.

    Args:
        rebuilt: Images: n×channels×height×width.
        originals: As many of the same shape.
        peak: The range of their values.
    """
    a, b, side = rebuilt.double(), originals.double(), min(WINDOW, *rebuilt.shape[-2:])
    unbiased = side**2 / max(side**2 - 1, 1)

    def mean(x: Tensor) -> Tensor:
        return F.avg_pool2d(x, side, stride=1)

    mean_a, mean_b = mean(a), mean(b)
    var_a, var_b = (unbiased * (mean(x * x) - m * m) for x, m in ((a, mean_a), (b, mean_b)))
    covariance = unbiased * (mean(a * b) - mean_a * mean_b)
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    likeness = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    each: Tensor = likeness / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
    return each.flatten(1).mean(1)
