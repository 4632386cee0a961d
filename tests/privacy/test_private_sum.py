"""Secure sums with noise in shares: the mean of clipped updates, the planned noise whoever drops out, and refusals."""

import math

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.privacy.client_ledger import SumLedger
from fedloom.privacy.private_sum import PrivateSum
from fedloom.secure.sum_step import SumSession, Total
from fedloom.secure.sums import play_sum
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import federation, mlp

pytest.importorskip("cryptography", reason="needs cryptography")
pytest.importorskip("dp_accounting", reason="needs dp-accounting")

NOISE = {"name": "privatesum", "noise": 4.0, "clip": 0.5}


def coded(step: PrivateSum, values: torch.Tensor, session: SumSession) -> torch.Tensor:
    random = [torch.Generator().manual_seed(place) for place in range(len(values))]
    return step.code(values.double(), torch.ones(len(values), dtype=torch.int64), session, random)


def session_of(clients: int) -> SumSession:
    return SumSession("run", 1, 0, tuple(range(clients)), 1)


def test_next_to_no_noise_gives_the_sum_of_clipped_updates_under_masks():
    step, session = PrivateSum(noise=1e-9, clip=1.0, bits=24), session_of(4)
    values = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [-1.0, 0.0]])
    rows = coded(step, values, session)
    total, _, _ = play_sum(step, session, dict(zip(session.ids, rows, strict=True)))
    decoded = step.decode_total(total, session)
    assert decoded.values.tolist() == pytest.approx([0.6 + 0.3 - 1.0, 0.8 + 0.4], abs=1e-5)
    assert (decoded.weight, decoded.scaled) == (4, 0)


@pytest.mark.parametrize("came", [6, 9])
@pytest.mark.parametrize("seeded", [True, False])
def test_the_sum_has_the_planned_noise_also_when_the_most_drop_out(came, seeded):
    """Nine are asked and three may drop out: the sum of six has the deviation that the ledger counts."""
    step, session, width = PrivateSum(noise=3.0, clip=2.0, seeded=seeded), session_of(9), 8000
    assert step.fewest(9) == 6
    rows = coded(step, torch.zeros(9, width), session)[:came]
    decoded = step.decode_total(Total(rows.sum(0, dtype=rows.dtype), tuple(range(came))), session)
    planned = 3.0 * (2.0 + step.grid(9).step * math.sqrt(width))
    assert float(decoded.values.std()) == pytest.approx(planned * math.sqrt(came / 6), rel=0.04)


def test_those_who_help_the_server_do_not_count():
    assert PrivateSum(colluders=0.2, dropouts=0.2).fewest(10) == 6
    assert PrivateSum(dropouts=0.333).fewest(3) == 2  # one of three may go, so two have all of the noise


@pytest.mark.parametrize(("noise", "bits", "clients"), [(0.1, 8, 2), (50.0, 8, 40), (50.0, 24, 40), (3.0, 20, 300)])
def test_words_have_room_for_updates_and_noise(noise, bits, clients):
    step = PrivateSum(noise=noise, bits=bits)
    grid, shares = step.grid(clients), step.shares(100_000, clients)
    assert clients * grid.levels + shares.largest_noise(clients) < 2 ** (grid.word - 1)


@pytest.fixture(scope="module")
def task():
    return Task("t", federation([40, 25, 12, 30]), mlp())


def run(task, method="fedavg", **settings):
    return fl.run(task, method, **{"rounds": 2, "channel": [NOISE], "eval_every": 0, **settings})


def spent(history) -> list[float]:
    return [record["metrics"]["privacy/sum_epsilon"] for record in history.records if record["round"]]


@pytest.mark.parametrize("method", ["fedavg", "fedrep", "scaffold", "feddyn"])
def test_records_have_the_epsilon_of_the_shares(task, method):
    history = run(task, method)
    width = task.layout.width * (2 if method == "scaffold" else 1)
    ledger = SumLedger(PrivateSum(noise=4.0, clip=0.5).shares(width, 4), 1e-5)
    assert spent(history) == [ledger.epsilon(1, 1), ledger.epsilon(1, 2)]


def test_a_budget_stops_the_run_before_it_is_exceeded(task):
    budget = SumLedger(PrivateSum(noise=4.0, clip=0.5).shares(task.layout.width, 4), 1e-5).epsilon(1, 2)
    with pytest.warns(fl.StoppedWarning, match="privacy budgets of 4 of 4 clients"):
        history = run(task, rounds=5, channel=[{**NOISE, "epsilon": budget}])
    assert spent(history)[-1] == budget


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        (
            "cfl",
            {},
            "privatesum lets only sums of replies leave, and cfl needs, with these settings, the reply of each",
        ),
        ("fedavg", {"selection": "powerofchoice"}, "privatesum .* selection powerofchoice looks at what clients have"),
        (
            "fedavg",
            {"channel": [{"name": "cmfl"}, NOISE]},
            "privatesum adds .* of all clients .* cmfl lets clients withhold their update: leave out",
        ),
        ("fedavg", {"channel": [{**NOISE, "epsilon": 0.1}]}, "the first reply alone spends"),
        ("fedavg", {"channel": [{**NOISE, "noise": 0.0}]}, "noise=0.0 in channel step .*: it must be at least 1e-12"),
    ],
)
def test_what_would_not_protect_clients_is_refused_before_any_training(task, monkeypatch, method, settings, said):
    monkeypatch.setattr(LocalTrainer, "train", lambda *_: pytest.fail("it trained"))
    with pytest.raises(FedloomError, match=said):
        run(task, method, **settings)
