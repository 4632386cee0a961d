"""Noise of clients: what leaves is clipped, noisy, and tells an attacker no more than its epsilon allows; and runs."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.stats import kstest

import fedloom as fl
from fedloom.channel.channel import Channel
from fedloom.channel.topk import TopK
from fedloom.core.channel_step import Sender
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.privacy.client_ledger import LocalLedger
from fedloom.privacy.local_noise import LocalNoise
from fedloom.training.local_trainer import LocalTrainer
from support.distinguishing import violation
from support.synthetic import cohort, federation, mlp, small_task

NOISE = {"name": "localnoise", "noise": 4.0, "clip": 0.5}
LEDGER = LocalLedger(4.0, 1e-5)


def sent(step: LocalNoise, rows: torch.Tensor, prefix: str = "channel/0/row") -> torch.Tensor:
    """What as many clients as there are rows send."""
    task = small_task()
    clients = cohort(task, "vectorised", LocalWork(), [number % 4 for number in range(len(rows))])
    encoded, extras = step.encode(rows, Sender(clients, prefix))
    assert extras == {}
    return step.decode(encoded, extras, rows.shape[1])


def test_without_noise_it_is_the_clipped_update():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [math.inf, 1.0]])
    found = sent(LocalNoise(noise=1e-12, clip=1.0), rows)
    assert torch.allclose(found, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0], [0.0, 0.0]]), atol=1e-6)


@pytest.mark.parametrize("seeded", [True, False])
def test_the_noise_has_the_deviation_that_the_ledger_counts(seeded):
    found = sent(LocalNoise(noise=2.0, clip=3.0, seeded=seeded), torch.zeros(4, 5000)) / (2.0 * 3.0)
    assert kstest(found.flatten().numpy(), "norm").pvalue > 1e-4
    assert float(torch.corrcoef(found).fill_diagonal_(0).abs().max()) < 0.08  # clients' noise is their own


def test_noise_of_a_seed_repeats_for_the_same_reply_only():
    rows, step = torch.zeros(2, 50), LocalNoise(seeded=True)
    assert torch.equal(sent(step, rows), sent(step, rows))
    assert not torch.equal(sent(step, rows), sent(step, rows, "channel/0/head"))
    assert not torch.equal(sent(LocalNoise(), rows), sent(LocalNoise(), rows))


def test_an_attacker_tells_two_updates_no_better_than_epsilon_allows():
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    runs, delta = 20_000, 1e-3
    epsilon = LocalLedger(3.0, delta).epsilon(1, 1)

    def released(step: LocalNoise, value: float) -> np.ndarray:
        return sent(step, torch.full((runs, 1), value)).flatten().numpy()

    right, wrong = LocalNoise(noise=3.0), LocalNoise(noise=1.5)  # as if two updates differed by the clip norm only
    assert violation(released(right, 50.0), released(right, -50.0), epsilon, delta) <= 0
    assert violation(released(wrong, 50.0), released(wrong, -50.0), epsilon, delta) > 0


def test_what_would_leave_before_the_noise_is_refused():
    with pytest.raises(FedloomError, match="must be the first step"):
        LocalNoise().check(FedAvg(), small_task(), (TopK(),))


@dataclass(frozen=True)
class SendsMore(FedAvg):
    """Sends something that gets no noise."""

    sends = {**FedAvg.sends, "sizes": fl.Statistic("how many samples it has")}  # noqa: RUF012


def test_a_reply_that_is_not_an_update_does_not_leave():
    clients = cohort(small_task(), "vectorised", LocalWork())
    row = small_task().initial_row()
    reply = fl.Reply({"row": clients.spread(row), "sizes": clients.samples.float()[:, None]})
    with pytest.raises(FedloomError, match="sizes, which is not an update and would leave without localnoise"):
        Channel(SendsMore(), (LocalNoise(),)).encode(reply, fl.Message({"row": row}), clients)


@pytest.mark.parametrize("settings", [{"noise": 0.0}, {"clip": math.inf}, {"delta": 1.0}, {"epsilon": -1.0}])
def test_settings_that_protect_nobody_are_refused(settings):
    with pytest.raises(FedloomError, match="localnoise"):
        LocalNoise(**settings)


# -- runs


@pytest.fixture(scope="module")
def task():
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
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


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        ([{"name": "topk"}, NOISE], "must be the first step"),
        ([NOISE, NOISE], "must be the first step"),
        ([{**NOISE, "epsilon": 0.1}], "the first reply alone spends"),
        ([{**NOISE, "noise": 1e-6}], "protects nobody"),
    ],
)
def test_what_would_not_protect_clients_is_refused_before_any_training(task, monkeypatch, channel, said):
    monkeypatch.setattr(LocalTrainer, "train", lambda *_: pytest.fail("it trained"))
    with pytest.raises(FedloomError, match=said):
        run(task, channel=channel)
