"""The interval of Clopper and Pearson: between which rates the true one lies, by how often something happened.

It is exact: the true rate is outside with a probability of at most ``1 - confidence``, whatever it is. Clopper and
Pearson, The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial, Biometrika 1934.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Rates = np.ndarray[Any, np.dtype[np.float64]]


def clopper_pearson(happened: ArrayLike, of: int, confidence: float = 0.95) -> tuple[Rates, Rates]:
    """The least and the largest rate; each alone holds with ``(1 + confidence) / 2``.

    Args:
        happened: How often it happened; a number, or one for each of several rates.
        of: How often it could have happened.
        confidence: The probability with which the interval holds.
    """
    from scipy.stats import beta

    counts, half = np.asarray(happened, dtype=np.float64), (1 - confidence) / 2
    with np.errstate(invalid="ignore"):
        least = np.where(counts > 0, beta.ppf(half, counts, of - counts + 1), 0.0)
        most = np.where(counts < of, beta.ppf(1 - half, counts + 1, of - counts), 1.0)
    return least, most
