"""Noise in shares: each client adds a little to its integers, and their sum has the noise that is planned.

A secure sum shows the server the sum of clients' integers and nothing else, so nobody needs to add all of the noise. A
Skellam number (the difference of two Poisson numbers) plus another is a Skellam number again, unlike rounded Gaussian
noise: with m shares of variance v the sum has exactly variance m v. A share is sized for the fewest honest clients that
a sum may have, so that a smaller cohort than planned has enough noise, and a larger one has more.

Agarwal, Kairouz and Liu, The Skellam Mechanism for Differentially Private Federated Learning, NeurIPS 2021,
https://arxiv.org/abs/2110.04995. Its bound on Rényi's divergence of order a (theorem 3.5), with sensitivities D1 and D2
in the first and second norm and variance v::

    a D2² / (2 v) + min(((2 a - 1) D2² + 6 D1) / (4 v²), 3 D1 / (2 v))

Who takes part is not hidden from the server of a secure sum. So neighbours are two cohorts in which one client's row is
another one, sensitivities count twice, and drawing clients at random is not counted in favour of anybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.settings import Count, OpenShare, Positive, check_settings, check_value
from fedloom.privacy.accounting import renyi_epsilon
from fedloom.privacy.noise_settings import Noise
from fedloom.privacy.secure_random import Uniform, poisson, secure_uniform


@dataclass(frozen=True)
class SkellamShares:
    """How much noise every client adds to its row of integers.

    Args:
        noise: The deviation of the sum's noise, divided by the largest norm of a client's integers.
        clip: The largest norm of a client's row before it is rounded to integers.
        step: The value that the integer 1 stands for.
        width: How many integers a row has.
        fewest: The fewest clients in a sum that add their share: the threshold of the secure sum, less those who may be
            hostile.
    """

    noise: Noise
    clip: Positive
    step: Positive
    width: Count
    fewest: Count

    def __post_init__(self) -> None:
        check_settings(self, "noise shares")

    @property
    def largest_norm(self) -> float:
        """The largest norm of a client's integers: rounding moves each of them by less than 1, up or down."""
        return self.clip / self.step + math.sqrt(self.width)

    @property
    def variance(self) -> float:
        """The variance of the noise in a sum of the fewest clients, in integers."""
        return (self.noise * self.largest_norm) ** 2

    @property
    def share(self) -> float:
        """The variance of one client's noise."""
        return self.variance / self.fewest

    def add_noise(self, rows: Tensor, uniform: Uniform = secure_uniform) -> Tensor:
        """Rows of integers with each client's share of the noise.

        A sum of integers modulo a word may wrap; that loses no privacy.

        Args:
            rows: A row of integers per client, each with a norm of at most ``largest_norm``.
            uniform: Where randomness comes from: the operating system's generator, unless a run asks for its seed.
        """
        if rows.dtype != torch.int64:
            raise FedloomError(f"noise shares are added to rows of int64, got {rows.dtype}.")
        if rows.dim() != 2 or rows.shape[1] != self.width:
            raise FedloomError(f"noise shares are for rows of {self.width:,} integers, got shape {tuple(rows.shape)}.")
        norms = rows.double().norm(dim=1)
        if bool((norms > self.largest_norm * (1 + 1e-9)).any()):
            raise FedloomError(
                f"a row of integers has norm {float(norms.max()):.6g}, and the noise is for {self.largest_norm:.6g} at "
                "most: clip updates before they are rounded."
            )
        return rows + torch.from_numpy(skellam(self.share, rows.numel(), uniform)).view(rows.shape)

    def epsilon(self, sums: int, delta: float) -> float:
        """The epsilon of a client whose row was in some sums.

        Args:
            sums: In how many.
            delta: The probability with which epsilon may not hold.
        """
        check_value("delta", delta, OpenShare)
        if not sums:
            return 0.0
        second = 2 * self.largest_norm
        first = min(math.sqrt(self.width) * second, second**2)  # integers are at most their squares
        return renyi_epsilon(lambda order: sums * renyi_bound(order, first, second, self.variance), delta)

    def largest_noise(self, clients: int, chance: float = 2.0**-64) -> int:
        """What the noise of a sum stays below in every coordinate but with a small chance, for the size of its words.

        By Bernstein's inequality for Poisson numbers, over all coordinates.

        Args:
            clients: How many shares the sum has.
            chance: The probability of more in any coordinate.
        """
        variance, log = self.share * clients, math.log(2 * self.width / chance)
        return math.ceil(log / 3 + math.sqrt((log / 3) ** 2 + 2 * variance * log))


def skellam(variance: float, count: int, uniform: Uniform = secure_uniform) -> np.ndarray:
    """Independent Skellam numbers of mean 0.

    Args:
        count: How many.
        uniform: Where randomness comes from.
    """
    numbers: np.ndarray = poisson(variance / 2, count, uniform) - poisson(variance / 2, count, uniform)
    return numbers


def renyi_bound(order: float, first: float, second: float, variance: float) -> float:
    """The bound on Rényi's divergence of two shifted Skellam distributions (theorem 3.5 of the paper).

    Args:
        order: The order of the divergence, above 1.
        first: The first norm of the shift.
        second: Its second norm.
        variance: The variance of the noise.
    """
    tail = min(((2 * order - 1) * second**2 + 6 * first) / (4 * variance**2), 3 * first / (2 * variance))
    return order * second**2 / (2 * variance) + tail
