"""Numbers of the operating system's generator are distributed as they should be."""

import numpy as np
from scipy.stats import kstest

from fedloom.core.secure_random import secure_normal, secure_uniform


def test_uniform_numbers_are_uniform_and_never_zero():
    numbers = secure_uniform(20_000)
    assert kstest(numbers, "uniform").pvalue > 1e-5
    assert numbers.min() > 0
    assert numbers.max() <= 1


def test_normal_numbers_are_normal_and_independent():
    numbers = secure_normal(20_001).numpy()
    assert numbers.shape == (20_001,)
    assert kstest(numbers, "norm").pvalue > 1e-5
    halves = np.corrcoef(numbers[:10_000], numbers[10_001:20_001])[0, 1]
    assert abs(halves) < 0.05


def test_nobody_can_repeat_them():
    assert secure_normal(4).tolist() != secure_normal(4).tolist()
