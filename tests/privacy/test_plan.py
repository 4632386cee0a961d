"""Plans and targets: what is planned runs, and a run with a target keeps to it with no more noise than it needs."""

from typing import Any

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.privacy.noise_settings import most_turns
from fedloom.privacy.plan import Question, plan_mean, plan_samples, plan_sums, plan_updates, turns_of
from fedloom.privacy.sampling import ClientSampling, EveryClient, FixedSize, PoissonChains, PoissonDraw
from support.synthetic import federation, mlp

pytest.importorskip("dp_accounting", reason="needs dp-accounting")

TARGET = {"epsilon": 6.0, "clip": 0.5}
POISSON = {"name": "poisson", "rate": 0.5}
EVERY = ("random", EveryClient(40))


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=40)


def noise_of(history, *path):
    settings = history.config
    for key in path:
        settings = settings[key]
    return settings["noise"]


@pytest.mark.parametrize(
    ("settings", "path", "name"),
    [
        (
            {"aggregation": {"name": "privatemean", **TARGET}, "selection": POISSON},
            ("aggregation",),
            "privacy/epsilon",
        ),
        ({"channel": [{"name": "localnoise", **TARGET}]}, ("channel", 0), "privacy/local_epsilon"),
        ({"channel": [{"name": "privatesum", **TARGET}]}, ("channel", 0), "privacy/sum_epsilon"),
        ({"sample_privacy": TARGET}, ("sample_privacy",), "privacy/sample_epsilon"),
    ],
)
def test_a_target_is_reached_and_not_exceeded_at_the_last_round(task, settings, path, name):
    history = fl.run(task, "fedavg", rounds=3, eval_every=0, local={"batch_size": 8}, **settings)
    assert history.stopped is None
    assert history.records[-1]["round"] == 3
    assert 5.9 < history.records[-1]["metrics"][name] <= 6.0
    assert noise_of(history, *path) > 0  # written out, so that a resumed run has the same


def test_noise_that_is_given_stays_and_epsilon_is_then_the_budget(task):
    given = {"name": "privatemean", "noise": 1.0, **TARGET}
    with pytest.warns(fl.StoppedWarning, match="would spend epsilon"):
        history = fl.run(task, rounds=6, eval_every=0, selection=POISSON, aggregation=given)
    assert noise_of(history, "aggregation") == 1.0


def test_without_a_target_noise_is_one(task):
    history = fl.run(task, rounds=1, eval_every=0, selection=POISSON, aggregation="privatemean")
    assert noise_of(history, "aggregation") == 1.0


@pytest.mark.parametrize(("clients", "per_round", "rounds"), [(40, 15, 5), (40, 40, 5), (100, 30, 3)])
def test_what_is_planned_for_a_mean_runs(clients, per_round, rounds):
    """The noise of the plan, in a run with the same draws, spends what the plan says and stops nowhere."""
    share = per_round / clients
    drawn = EveryClient(clients) if share == 1 else PoissonDraw(share, clients)
    plan = plan_mean(Question(rounds, 1e-5, epsilon=4.0), drawn)
    selection = "random" if share == 1 else {"name": "poisson", "rate": share}
    aggregation = {"name": "privatemean", "noise": plan.noise, "epsilon": 4.0}
    task = Task("t", federation([4] * clients), mlp())
    history = fl.run(task, rounds=rounds, eval_every=0, selection=selection, aggregation=aggregation)
    assert history.stopped is None
    assert history.records[-1]["metrics"]["privacy/epsilon"] == pytest.approx(plan.epsilon)


def test_rounds_that_a_run_refuses_are_refused_by_the_plan_and_what_it_suggests_is_not():
    with pytest.raises(FedloomError, match=r"raise selection.rate to 0\.\d+, which is 1\d clients per round") as caught:
        plan_mean(Question(100, 1e-5, epsilon=2.0), PoissonDraw(0.25, 40))
    rate = float(str(caught.value).split("selection.rate to ")[1].split(",")[0])
    assert plan_mean(Question(100, 1e-5, noise=1.0), PoissonDraw(rate, 40)).epsilon > 0


def test_plans_of_clients_count_what_their_ledgers_count(task):
    asked = Question(10, 1e-5, noise=4.0)
    local = fl.run(task, rounds=10, eval_every=0, channel=[{"name": "localnoise", "noise": 4.0}])
    assert plan_updates(asked, 10, 40).epsilon == local.records[-1]["metrics"]["privacy/local_epsilon"]
    sizes = task.federation.train.sizes
    steps = fl.run(task, rounds=2, eval_every=0, local={"batch_size": 8}, sample_privacy={"noise": 4.0})
    plan = plan_samples(Question(2, 1e-5, noise=4.0), 2, int(sizes.min()), LocalWork(batch_size=8))
    assert plan.epsilon == pytest.approx(steps.records[-1]["metrics"]["privacy/sample_epsilon"], rel=0.2)
    sums = fl.run(task, rounds=2, eval_every=0, channel=[{"name": "privatesum", "noise": 4.0}])
    found = plan_sums(Question(2, 1e-5, noise=4.0), None, 40, task.layout.width, 1.0)
    assert found.epsilon == sums.records[-1]["metrics"]["privacy/sum_epsilon"]


def planned_settings(mechanism: str, sampling: ClientSampling, rounds: int, task: Task) -> dict[str, Any]:
    """The settings of a run as a plan of a mechanism says them."""
    asked, clients = Question(rounds, 1e-5, epsilon=8.0), task.federation.clients
    turns = turns_of(sampling, clients, rounds)
    if mechanism == "privatemean":
        return {"aggregation": {"name": mechanism, "noise": plan_mean(asked, sampling).noise, "epsilon": 8.0}}
    if mechanism == "sample_privacy":
        plan = plan_samples(asked, turns, 8, LocalWork(batch_size=4))
        return {mechanism: {"noise": plan.noise, "epsilon": 8.0}, "local": {"batch_size": 4}}
    if mechanism == "localnoise":
        plan = plan_updates(asked, turns, sampling.expected)
    else:
        plan = plan_sums(asked, sampling, clients, task.layout.width, 1.0)
    return {"channel": [{"name": mechanism, "noise": plan.noise, "epsilon": 8.0}]}


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize(("clients", "share"), [(1, 1.0), (2, 0.5), (2, 1.0), (6, 0.2), (6, 0.5), (30, 0.1), (30, 0.6)])
@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
@pytest.mark.parametrize("mechanism", ["privatemean", "sample_privacy", "localnoise", "privatesum"])
@pytest.mark.slow
def test_what_a_plan_says_runs_and_what_it_refuses_a_run_refuses(mechanism, sampling, clients, share, rounds):
    task, number = Task("t", federation([8] * clients), mlp()), max(1, int(share * clients))
    drawn: ClientSampling = EveryClient(clients)
    selection: dict[str, Any] = {"name": "random"}
    if share < 1 and sampling == "poisson":
        drawn, selection = PoissonDraw(share, clients), {"name": "poisson", "rate": share}
    elif share < 1:
        drawn, selection = FixedSize(number, clients), {"name": "random", "number": number}
    run = {"rounds": rounds, "eval_every": 0, "selection": selection}
    try:
        settings = planned_settings(mechanism, drawn, rounds, task)
    except FedloomError:
        part = {"noise": 4.0} if mechanism == "sample_privacy" else {"name": mechanism, "noise": 4.0}
        key = {"privatemean": "aggregation", "sample_privacy": "sample_privacy"}.get(mechanism, "channel")
        with pytest.raises(FedloomError):
            fl.run(task, "fedavg", **run, **{key: [part] if key == "channel" else part})
        return
    history = fl.run(task, "fedavg", **run, **settings)
    assert (history.stopped, history.records[-1]["round"]) == (None, rounds)


def test_a_plan_of_sums_has_no_chains_and_no_rows_that_are_too_wide():
    asked = Question(2, 1e-5, epsilon=8.0)
    with pytest.raises(FedloomError, match=r"^privatesum adds changes of one model, which chains hand on: .*\.$"):
        plan_sums(asked, PoissonChains(0.5, 10), 10, 100, 1.0)
    with pytest.raises(FedloomError, match=r"^privatesum adds rows of at most .*\.$"):
        plan_sums(asked, None, 10, 1 << 29, 1.0)


def test_a_client_is_drawn_more_often_than_planned_in_one_run_of_a_hundred():
    assert most_turns(10, 40, None) == 10
    turns = most_turns(100, 1000, fl.Poisson(0.05).draws(1000))
    assert 14 <= turns <= 17  # of 1,000 clients at 5 in 100, the most drawn one has 14 to 16
    assert turns_of(FixedSize(50, 1000), 1000, 100) == turns
    assert turns_of(None, None, 7) == turns_of(EveryClient(5), 5, 7) == 7
    with pytest.raises(FedloomError, match="give --clients"):
        turns_of(PoissonDraw(0.1), None, 10)


@pytest.mark.parametrize("given", [{}, {"epsilon": 1.0, "noise": 1.0}])
def test_a_question_has_one_unknown(given):
    with pytest.raises(FedloomError, match="one of the two"):
        Question(10, 1e-5, **given)
