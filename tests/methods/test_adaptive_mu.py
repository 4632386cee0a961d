"""The adaptive mu: how it follows the rounds' losses, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.aggregation.mean import Mean
from fedloom.core.message import Replies
from support.checkpoints import final
from support.synthetic import SIZES, small_task


def replies(losses: list[float], ids: list[int] | None = None) -> Replies:
    count = len(losses)
    return Replies(
        ids=list(range(count)) if ids is None else ids,
        tensors={"row": torch.zeros(count, 3), "loss": torch.tensor(losses, dtype=torch.float32)},
        samples=torch.ones(count),
        steps=torch.ones(count),
        weights=torch.full((count,), 1 / count),
        shares=torch.full((count,), 1 / count),
        aggregator=Mean(),
        clients=count,
        context=None,  # type: ignore[arg-type]
    )


def mu_after_each_round(start: float, losses: list[float]) -> list[float]:
    """mu after each round, given the rounds' training losses."""
    method = fl.FedProx(mu=start, adaptive=True)
    state, seen = method.start(small_task()), []
    for loss in losses:
        state = method.aggregate(state, replies([loss - 1, loss + 1]))
        seen.append(round(float(state["mu"]), 4))
    return seen


def test_mu_grows_by_a_tenth_whenever_the_loss_rises():
    assert mu_after_each_round(0.0, [2.0, 3.0, 4.0, 3.0, 3.5]) == [0.0, 0.1, 0.2, 0.2, 0.3]


def test_mu_falls_by_a_tenth_after_five_falls_in_a_row():
    assert mu_after_each_round(1.0, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5, 0.2]) == [1.0] * 5 + [0.9] * 5 + [0.8]


def test_a_rise_or_a_standstill_begins_the_count_of_falls_anew():
    assert mu_after_each_round(1.0, [9, 8, 7, 6, 7, 6, 5, 4, 3, 2]) == [
        1.0,
        1.0,
        1.0,
        1.0,
        1.1,
        1.1,
        1.1,
        1.1,
        1.1,
        1.0,
    ]
    assert mu_after_each_round(1.0, [9, 8, 7, 6, 6, 5, 4, 3, 2, 1]) == [1.0] * 9 + [0.9]


def test_mu_is_never_below_zero():
    assert mu_after_each_round(0.05, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]) == [0.05] * 5 + [0.0] * 5


def mu_after(rounds: list[dict[int, float]], mu: float = 1.0) -> list[float]:
    """mu after each round, given the losses of the clients that took part."""
    method = fl.FedProx(mu=mu, adaptive=True)
    state, seen = method.start(small_task()), []
    for losses in rounds:
        state = method.aggregate(state, replies(list(losses.values()), list(losses)))
        seen.append(round(float(state["mu"]), 4))
    return seen


def test_a_round_of_harder_clients_is_no_rise():
    """Client 1 has always a larger loss than client 0; both fall."""
    assert mu_after([{0: 1.0}, {1: 9.0}, {0: 0.9}, {1: 8.0}, {0: 0.8}, {1: 7.0}]) == [1.0] * 6
    assert mu_after([{0: 1.0}, {1: 9.0}, {0: 0.9}, {1: 8.0}, {0: 0.8}, {1: 7.0}, {0: 0.7}])[-1] == 0.9  # five falls


def test_a_client_is_compared_with_its_own_last_loss():
    assert mu_after([{0: 5.0, 1: 1.0}, {1: 2.0}])[-1] == 1.1  # 1 rose, though the mean of the round fell
    assert mu_after([{0: 1.0, 1: 5.0}, {1: 4.0}, {0: 3.0}])[-1] == 1.1  # 0 rose since round 1, and 1 did not count


def test_a_round_of_new_clients_only_changes_nothing():
    falls = [{0: float(10 - number)} for number in range(5)]
    assert mu_after([*falls, {1: 99.0}, {0: 5.0}])[-2:] == [1.0, 0.9]  # the count of falls goes on


def test_a_new_client_among_known_ones_does_not_count():
    assert mu_after([{0: 2.0}, {0: 1.0, 1: 99.0}, {0: 1.5, 1: 99.0}]) == [1.0, 1.0, 1.1]


@pytest.mark.slow
def test_mu_does_not_climb_because_clients_are_sampled(tmp_path):
    """FedProx learns here, so mu has no reason to climb; it reached 1.5 where rounds of other clients were compared."""
    task = fl.task("digits", clients=20, alpha=0.1, seed=1)
    method = fl.FedProx(mu=0.1, adaptive=True)
    state = final(tmp_path / "run", method, task, rounds=40, selection={"number": 5}, seed=1)
    assert float(state.server["mu"]) < 0.5


def test_adaptive_clients_send_the_loss_of_the_model_they_received(tmp_path):
    task = small_task()
    state = final(tmp_path / "run", fl.FedProx(mu=0.1, adaptive=True), task, rounds=1)
    x, y = task.inputs(torch.arange(sum(SIZES))), task.targets(torch.arange(sum(SIZES)))
    with torch.no_grad():
        loss = nn.functional.cross_entropy(task.model.eval()(x), y)  # weighted by samples: the mean over all samples
    weights = torch.tensor(SIZES) / sum(SIZES)
    assert float((weights * state.server["losses"]).sum()) == pytest.approx(float(loss), rel=1e-5)
    assert float(state.server["mu"]) == pytest.approx(0.1)
