"""A metric's name that no run has is a mistake; one that this run did not measure is not."""

from __future__ import annotations

import pytest

from fedloom.core.errors import FedloomError
from fedloom.runs.results.metric_names import refuse_unknown_metric

MEASURED = ("client_model/own_test/accuracy/mean", "client_model/own_test/loss/mean", "global_model/global_test/loss")


@pytest.mark.parametrize(
    "name",
    [
        *MEASURED,
        "global_model/global_test/accuracy",
        "client_model/own_validation/accuracy/worst_decile",
        "client_model/global_test/loss/big",
        "trained_model/own_test/macro_f1/std",
    ],
)
def test_a_name_that_runs_have_is_accepted(name):
    refuse_unknown_metric(name, MEASURED, ["macro_f1"])


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("client_model/own_test/acuracy/mean", "client_model/own_test/accuracy/mean"),
        ("client_model/own_tests/loss/mean", "client_model/own_test/loss/mean"),
        ("accuracy", "client_model/own_test/accuracy/mean"),
        ("global_model/global_test/los", "global_model/global_test/loss"),
    ],
)
def test_a_typing_error_is_answered_with_the_nearest_name(name, meant):
    with pytest.raises(FedloomError, match=f"no run has a metric '{name}': did you mean '{meant}'"):
        refuse_unknown_metric(name, MEASURED, ["accuracy"])


def test_a_name_like_no_other_is_answered_with_an_example():
    with pytest.raises(FedloomError, match="a metric is, for instance, 'client_model/own_test/mae/mean'"):
        refuse_unknown_metric("zzz", (), ["mae"])
