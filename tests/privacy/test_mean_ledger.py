"""Runs with a private mean: what they record, when they stop, and settings that protect nobody."""

import pytest

import fedloom as fl
from fedloom.privacy.accounting import epsilon_after
from fedloom.privacy.sampling import EveryClient, FixedSize, PoissonChains, PoissonDraw

pytest.importorskip("dp_accounting", reason="needs dp-accounting")

POISSON = {"name": "poisson", "rate": 0.5}
PRIVATE = {"name": "privatemean", "noise": 1.0, "clip": 0.5}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=40)


def run(task, method="fedavg", **settings):
    given = {"rounds": 2, "selection": POISSON, "aggregation": PRIVATE, "eval_every": 0, **settings}
    return fl.run(task, method, **given)


def spent(history) -> list[float]:
    return [record["metrics"]["privacy/epsilon"] for record in history.records if record["round"]]


@pytest.mark.parametrize(
    ("selection", "sampling"),
    [
        (POISSON, PoissonDraw(0.5, 40)),
        ("random", EveryClient(40)),
        ({"name": "random", "number": 10}, FixedSize(10, 40)),
    ],
)
@pytest.mark.slow
def test_every_record_has_the_epsilon_of_the_runs_own_sampling(task, selection, sampling):
    history = run(task, selection=selection)
    assert spent(history) == [epsilon_after(sampling, 1.0, number, 1e-5) for number in (1, 2)]


def test_given_chains_are_drawn_and_accounted_for_as_chains(task):
    chains = [[2 * k, 2 * k + 1] for k in range(20)]
    history = run(task, fl.FedSeq(chains=chains), selection={"name": "poisson", "rate": 0.8})
    assert spent(history)[0] == epsilon_after(PoissonChains(0.8, 20), 1.0, 1, 1e-5)


@pytest.mark.parametrize("method", ["fedprox:mu=0.1", "fedrep", "ditto", "fedavgm", "fedsgd", "pfedme", "moon"])
def test_methods_that_only_average_run(task, method):
    assert run(task, method, rounds=1).stopped is None


def test_a_budget_stops_the_run_before_it_is_exceeded(task):
    with pytest.warns(fl.StoppedWarning, match="would spend epsilon"):
        history = run(task, rounds=6, aggregation={**PRIVATE, "epsilon": 6.0})
    last = spent(history)[-1]
    assert last <= 6.0 < epsilon_after(PoissonDraw(0.5, 40), 1.0, history.records[-1]["round"] + 1, 1e-5)


def test_a_seeded_run_repeats_and_says_that_it_is_for_study(task, caplog):
    settings = {"aggregation": {**PRIVATE, "seeded": True}, "eval_every": 1}
    first, second = run(task, **settings), run(task, **settings)
    assert first.records == second.records
    assert "for study only" in caplog.text


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        (
            fl.FedSeq(chains=[[2 * k, 2 * k + 1] for k in range(20)]),
            {"selection": "random"},
            "chains are private if selection poisson draws",
        ),
        ("fedavg", {"selection": {"name": "poisson", "rate": 0.05}}, r"raise selection\.rate"),
        ("fedavg", {"aggregation": {**PRIVATE, "epsilon": 0.1}}, "the first round alone spends"),
        ("fedavg", {"aggregation": {**PRIVATE, "noise": 0.0}}, "noise=0.0 .*: it must be at least 1e-12"),
        ("fedavg", {"aggregation": {**PRIVATE, "noise": 1e-6}}, "protects nobody"),
        ("fedavg", {"aggregation": {**PRIVATE, "quantile": 0.5, "noise": 4.0}}, "draw more clients"),
    ],
)
def test_what_would_protect_nobody_is_refused(task, method, settings, said):
    with pytest.raises(fl.FedloomError, match=said):
        run(task, method, **settings)
