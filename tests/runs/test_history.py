"""What can be asked of a history: rounds to a target, means over rounds, and what its method is called."""

from __future__ import annotations

import pytest

from fedloom.core.errors import FedloomError
from fedloom.runs.history import History
from fedloom.runs.statistics import CLIENTS


def history(values: dict[int, float], metric: str = CLIENTS, **config: object) -> History:
    """A run of ten rounds in which a metric was measured in some of them."""
    records = [{"round": n, "metrics": {metric: values[n]} if n in values else {}} for n in range(11)]
    return History({"method": {"name": "fedavg"}, **config}, records)


RISING = {0: 0.1, 2: 0.5, 4: 0.8, 6: 0.7, 8: 0.9, 10: 0.9}


@pytest.mark.parametrize(
    ("target", "window", "round_number"),
    [
        (0.5, 1, 2),
        (0.8, 1, 4),
        (0.05, 1, 0),
        (0.95, 1, None),
        (0.75, 2, 6),  # (0.8 + 0.7) / 2
        (0.8, 2, 8),  # (0.7 + 0.9) / 2
        (0.79, 3, 8),  # (0.8 + 0.7 + 0.9) / 3
        (0.85, 3, None),
        (0.1, 6, 10),
        (0.1, 7, None),
    ],
)
def test_rounds_to_a_target_by_hand(target, window, round_number):
    assert history(RISING).rounds_to(target, window=window) == round_number


def test_a_target_may_be_of_another_metric_and_one_that_was_never_measured_is_never_reached():
    assert history({3: 0.5}, "a/b").rounds_to(0.4, "a/b") == 3
    assert history({3: 0.5}, "a/b").rounds_to(0.4) is None
    with pytest.raises(FedloomError, match="window=0"):
        history(RISING).rounds_to(0.5, window=0)


def test_the_mean_over_rounds_leaves_the_untrained_model_out():
    assert history(RISING).mean(CLIENTS) == pytest.approx((0.5 + 0.8 + 0.7 + 0.9 + 0.9) / 5)
    assert history({0: 0.5}).mean(CLIENTS) is None


def test_what_was_sent_is_down_and_up_and_between_clients():
    run = history({})
    for record in run.records:
        record |= {"bytes_down": 1, "bytes_up": 20, "bytes_between": 300, "steps": 4000}
    names = ("bytes_down", "bytes_up", "bytes_between", "bytes_sent", "steps")
    assert [run.total(name, upto=1) for name in names] == [2, 40, 600, 642, 8000]
    with pytest.raises(KeyError):
        run.total("bytes_upwards")


def test_a_method_is_called_by_its_name_and_its_stages():
    assert history({}).label == "fedavg"
    stages = [{"name": "fedpredict", "dynamic": True}, {"name": "/home/me/my_file.py:Mine"}]
    assert history({}, prediction=stages).label == "fedavg+fedpredict+Mine"
