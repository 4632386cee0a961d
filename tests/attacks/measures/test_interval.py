"""Clopper and Pearson's interval: SciPy's own, and the cases without any and with all."""

import pytest
from scipy.stats import binomtest

from fedloom.attacks.measures.interval import clopper_pearson


@pytest.mark.parametrize(("happened", "of"), [(0, 10), (3, 10), (10, 10), (1, 1000), (0, 1)])
def test_it_is_scipys_exact_interval(happened, of):
    least, most = clopper_pearson(happened, of, 0.9)
    theirs = binomtest(happened, of).proportion_ci(0.9, method="exact")
    assert (float(least), float(most)) == pytest.approx((theirs.low, theirs.high))


def test_several_at_once():
    least, most = clopper_pearson([0, 5, 10], 10)
    assert least.shape == most.shape == (3,)
    assert (least[0], most[2]) == (0.0, 1.0)
