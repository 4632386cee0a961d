"""What can be asked of a history: rounds to a target, means over rounds, and what its method is called."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import CLIENTS


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
    with pytest.raises(FedloomError, match=r"unknown cost 'bytes_upwards'\. Did you mean 'bytes_up'"):
        run.total("bytes_upwards")


def test_a_method_is_called_by_its_name_and_its_stages():
    assert history({}).label == "fedavg"
    stages = [{"name": "fedpredict", "dynamic": True}, {"name": "/home/me/my_file.py:Mine"}]
    assert history({}, prediction=stages).label == "fedavg+fedpredict+Mine"


def test_a_name_that_no_run_has_is_refused_where_values_are_asked_for():
    run = history(RISING)
    for ask in (run.last, run.series):
        with pytest.raises(FedloomError, match="did you mean 'client_model/own_test/accuracy/mean'"):
            ask("client_model/own_test/acuracy/mean")
    assert run.last("global_model/global_test/accuracy") is None


def test_a_run_shows_itself_in_a_line():
    shown = repr(history(RISING, task={"name": "digits"}, rounds=10))
    assert shown == "<History of fedavg on digits: 10 of 10 rounds, accuracy 90.0 % (clients' models)>"


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4, alpha=0.5)


def test_runs_that_measured_the_same_are_equal_wherever_they_are(task, tmp_path):
    there, here = fl.run(task, rounds=1, out=tmp_path / "r"), fl.run(task, rounds=1)
    assert there == here == fl.History.load(tmp_path / "r")
    assert fl.run(task, rounds=1, seed=1) != here


@pytest.mark.parametrize("method", ["fedavg", "local", "fedavg+finetune", "fedper"])
def test_the_model_of_a_client_scores_what_the_run_says_of_it(method, task, tmp_path):
    for run in (fl.run(task, method, rounds=2), fl.run(task, method, rounds=2, out=tmp_path / "a")):
        for row in run.clients:
            model, test = run.model(task, client=row["client"]), task.federation.test[row["client"]]
            right = model(task.inputs(test)).argmax(1) == task.targets(test)
            assert float(right.double().mean()) == pytest.approx(row["accuracy"])


def test_clients_of_a_shared_model_have_it_and_a_client_that_is_not_there_is_refused(task):
    run = fl.run(task, rounds=1)
    mine, shared = run.model(task, client="3").state_dict(), run.model(task).state_dict()
    assert all(torch.equal(mine[name], shared[name]) for name in shared)
    with pytest.raises(FedloomError, match="fedavg has no client '7': there are '0', '1', '2', '3'"):
        run.model(task, client=7)


def test_a_task_with_another_model_is_refused(task):
    run = fl.run(task, rounds=1)
    with pytest.raises(FedloomError, match=r"but the model of the task own has 780: give the task of the run"):
        run.model(fl.task_of(task.federation, torch.nn.Linear(64, 12)))


def test_a_run_without_its_clients_states_asks_for_a_folder(task):
    run = copy.copy(fl.run(task, "local", rounds=1))  # as a pickled one is
    with pytest.raises(FedloomError, match="give the run a folder"):
        run.model(task, client=1)


def test_a_run_that_diverges_warns_and_one_that_does_not_is_silent(task):
    with pytest.warns(fl.StoppedWarning, match="fedavg diverged in round 1"):
        run = fl.run(task, rounds=2, local={"lr": 1e30})
    assert run.stopped is not None
    with pytest.warns(fl.StoppedWarning):
        fl.compare(task, ["fedavg"], rounds=1, local={"lr": 1e30})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fl.run(task, rounds=1)


def test_one_metric_is_drawn_alone_or_on_axes_of_ones_own(task, tmp_path):
    from matplotlib.figure import Figure

    history = fl.run(task, rounds=2)
    loss = "client_model/own_test/loss/mean"
    rounds, values = history.series(loss)
    (axes,) = history.plot(metric=loss).axes
    assert [list(one) for one in axes.lines[0].get_data()] == [rounds, values]
    assert axes.get_ylabel() == "loss"
    mine = Figure()
    left, right = mine.subplots(1, 2)
    assert history.plot(tmp_path / "mine.png", ax=right) is right
    assert (tmp_path / "mine.png").exists()
    assert [list(one) for one in right.lines[0].get_data()] == list(map(list, history.series(history.score.clients)))
    assert not left.lines
    with pytest.raises(FedloomError, match="client_model/own_test/los/mean"):
        history.plot(metric="client_model/own_test/los/mean")
