"""Predicting with the model one trained last: what it is, for whom, and that training never notices."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.quadratic import quadratic

OPTIMA = [4.0, -2.0, 1.0, 7.0]
ERROR = "client_model/own_test/squared_error/mean"


def test_a_client_predicts_with_its_own_last_model_by_hand():
    """w_k = w + s (c_k - w), and w the mean of them."""
    s, w = 0.25, 0.0
    history = fl.run(quadratic(OPTIMA), "fedavg+own", rounds=3, local={"lr": s})
    for record in history.records[1:]:
        own = [w + s * (c - w) for c in OPTIMA]
        expected = sum((v - c) ** 2 for v, c in zip(own, OPTIMA, strict=True)) / 4
        assert record["metrics"][ERROR] == pytest.approx(expected, rel=1e-5)
        w = sum(own) / 4


def test_who_never_trained_predicts_with_the_shared_model():
    plain = fl.run(quadratic(OPTIMA), "fedavg", rounds=2, new_clients=2, local={"lr": 0.3})
    own = fl.run(quadratic(OPTIMA), "fedavg+own", rounds=2, new_clients=2, local={"lr": 0.3})
    assert own.last(ERROR.replace("mean", "new")) == plain.last(ERROR.replace("mean", "new"))
    assert own.last(ERROR) < plain.last(ERROR)


def test_training_does_not_notice():
    runs = [fl.run(quadratic(OPTIMA), method, rounds=3, local={"lr": 0.3}) for method in ("fedavg", "fedavg+own")]
    assert runs[0].row.equal(runs[1].row)


def test_it_is_refused_where_clients_have_no_model_of_their_own():
    with pytest.raises(FedloomError, match="drop lastlocalmodel"):
        fl.run(quadratic(OPTIMA), "centralised+own", rounds=1)
