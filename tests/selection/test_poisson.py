"""Poisson sampling: independent draws with one probability."""

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.core.selector import Pool
from fedloom.selection.poisson import Poisson


def pool(clients: int, number: int = 1) -> Pool:
    return Pool(torch.ones(clients), 0, number, 100, {}, ask=print)  # type: ignore[arg-type]


def test_every_client_is_drawn_at_the_rate_and_sizes_vary_as_they_should():
    draws = [Poisson(rate=0.3)(pool(50, number)).places for number in range(1, 401)]
    sizes = torch.tensor([float(len(draw)) for draw in draws])
    assert sizes.mean() == pytest.approx(15, abs=0.7)
    assert sizes.std() == pytest.approx((50 * 0.3 * 0.7) ** 0.5, rel=0.15)
    counts = torch.bincount(torch.tensor([place for draw in draws for place in draw]), minlength=50)
    assert counts.float().mean() == pytest.approx(120, abs=5)
    assert counts.min() > 75


def test_the_same_round_draws_the_same_clients_and_a_round_is_never_empty():
    assert Poisson(rate=0.2)(pool(30, 4)).places == Poisson(rate=0.2)(pool(30, 4)).places
    assert all(Poisson(rate=0.01)(pool(3, number)).places for number in range(1, 50))


def test_a_round_with_fewer_clients_than_the_aggregator_needs_is_drawn_again():
    for number in range(1, 60):
        free, bound = pool(20, number), replace(pool(20, number), least=5)
        assert len(Poisson(rate=0.25)(bound).places) >= 5
        if len(Poisson(rate=0.25)(free).places) >= 5:  # the first draw counts where it is large enough
            assert Poisson(rate=0.25)(bound).places == Poisson(rate=0.25)(free).places
    assert len(Poisson(rate=0.25)(replace(pool(3), least=5)).places) == 3


def test_no_round_of_a_run_with_krum_has_fewer_clients_than_krum_needs():
    task = fl.task("digits", clients=20)
    settings = {"aggregation": {"name": "krum", "share": 0.2}, "selection": Poisson(rate=0.3), "eval_every": 0}
    history = fl.run(task, "fedavg", rounds=15, **settings)
    assert min(len(record["selected"]) for record in history.records if record["round"]) >= 5


def test_a_rate_that_gives_the_aggregator_too_few_clients_is_refused():
    with pytest.raises(fl.FedloomError, match=r"krum needs at least 5 clients .* has 2 on average: select"):
        fl.run(fl.task("digits", clients=20), "fedavg", rounds=1, aggregation="krum", selection=Poisson(rate=0.1))


def test_a_rate_of_one_is_everybody():
    assert Poisson(rate=1.0)(pool(5)).places == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("rate", [0.0, -1.0, 1.5, float("nan")])
def test_a_rate_that_is_no_probability_is_refused(rate):
    with pytest.raises(fl.FedloomError, match=r"above 0 and at most 1|finite"):
        Poisson(rate=rate)
