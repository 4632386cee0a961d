"""Runs whose clients add noise themselves: what they record, when they stop, and which are refused."""

from dataclasses import dataclass

import pytest

import fedloom as fl
from fedloom.core.task import Task
from fedloom.privacy.client_ledger import LocalLedger
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import federation, mlp

pytest.importorskip("dp_accounting", reason="needs dp-accounting")

NOISE = {"name": "localnoise", "noise": 4.0, "clip": 0.5}
LEDGER = LocalLedger(4.0, 1e-5)


@pytest.fixture(scope="module")
def task():
    return Task("t", federation([40, 25, 12]), mlp())


def run(task, method="fedavg", **settings):
    given = {"rounds": 2, "channel": [NOISE], "eval_every": 0, **settings}
    return fl.run(task, method, **given)


def spent(history) -> list[float]:
    return [record["metrics"]["privacy/local_epsilon"] for record in history.records if record["round"]]


def test_every_record_has_the_epsilon_of_the_client_that_replied_most(task):
    assert spent(run(task)) == [LEDGER.epsilon(1, 1), LEDGER.epsilon(1, 2)]
    history = run(task, rounds=4, selection={"name": "random", "number": 1})
    most = max(sum(client in record["selected"] for record in history.records) for client in range(3))
    assert spent(history)[-1] == LEDGER.epsilon(1, most)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedrep", {}),
        ("feddyn", {}),
        ("moon", {}),
        ("fedsgd", {}),
        ("cfl", {}),
        ("fedseq:grouping=random", {}),
        ("fedavg", {"aggregation": "median"}),
        ("fedavg", {"channel": [NOISE, {"name": "topk", "fraction": 0.2}]}),
        ("fedavg", {"sample_privacy": {"noise": 1.0}}),
    ],
)
def test_methods_that_send_updates_only_run(task, method, settings):
    history = run(task, method, **settings)
    assert history.stopped is None
    assert spent(history)[-1] == LEDGER.epsilon(1, 2)


def test_a_budget_stops_before_it_is_exceeded(task):
    with pytest.warns(fl.StoppedWarning, match="privacy budgets of 3 of 3 clients"):
        history = run(task, rounds=9, channel=[{**NOISE, "epsilon": LEDGER.epsilon(1, 3)}])
    assert history.records[-1]["round"] == 3
    assert spent(history)[-1] == LEDGER.epsilon(1, 3)


@dataclass(frozen=True)
class SendsMore(fl.FedAvg):
    """Sends something that gets no noise, and does not say so in ``averaged``."""

    sends = {**fl.FedAvg.sends, "sizes": fl.Statistic("how many samples it has")}  # noqa: RUF012

    def client_update(self, cohort, message):
        reply = super().client_update(cohort, message)
        return fl.Reply({**reply.tensors, "sizes": cohort.samples.float()[:, None]})


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        ("scaffold", {}, "may send c, which is no update"),
        ("ifca", {}, "may send choice, which is no update"),
        ("fedprox:adaptive=true", {}, "may send loss, which is no update"),
        ("fedseq", {}, "may send pretrained, which is no update"),
        ("fedproto", {}, "leave out the channel"),
        ("local", {}, "leave out the channel"),
        ("fedavg", {"selection": "powerofchoice"}, "looks at what clients have"),
        ("fedavg", {"channel": [{"name": "topk"}, NOISE]}, "must be the first step"),
        ("fedavg", {"channel": [NOISE, NOISE]}, "must be the first step"),
        ("fedavg", {"channel": [NOISE, {"name": "cmfl"}]}, "decides by updates without noise"),
        ("fedavg", {"channel": [{**NOISE, "epsilon": 0.1}]}, "the first reply alone spends"),
        ("fedavg", {"channel": [{**NOISE, "noise": 1e-6}]}, "protects nobody"),
    ],
)
def test_what_would_not_protect_clients_is_refused_before_any_training(task, monkeypatch, method, settings, said):
    monkeypatch.setattr(LocalTrainer, "train", lambda *_: pytest.fail("it trained"))
    with pytest.raises(fl.FedloomError, match=said):
        run(task, method, **settings)


def test_a_reply_that_is_no_update_does_not_leave(task):
    with pytest.raises(fl.FedloomError, match="sizes, which is not an update and would leave without localnoise"):
        run(task, SendsMore())
