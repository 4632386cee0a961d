"""What clients spend is counted as their replies arrive."""

import pytest
import torch

from fedloom.core.errors import Stopped
from fedloom.rounds.answers import Arrived
from fedloom.rounds.exchange.budget import count_uses, epsilons
from fedloom.rounds.run_state import RunState


class Steps:
    """A ledger whose epsilon is the number of uses; three may be spent."""

    def uses(self, steps):
        return steps

    def spent(self, samples, uses):
        return float(max(uses))

    def over_budget(self, samples, uses):
        return {place for place, used in enumerate(uses) if used > 3}


class SmallRun:
    """As much of a composition as counting needs."""

    client_privacy = {"sample": Steps()}  # noqa: RUF012

    def training_federation(self, _):
        class Sizes:
            class train:  # noqa: N801
                sizes = torch.tensor([5, 6, 7, 8])

        return Sizes


def answer(state, steps, needed=1):
    """Clients 1 and 3 answer after some steps, those of client 3 named first."""
    return count_uses(SmallRun(), state, Arrived([1, 3], torch.tensor([steps[1], steps[0]])), needed, 1)


def test_uses_are_counted_client_by_client():
    state = RunState(0, {})
    assert answer(state, (2, 1)) == []
    assert state.uses["sample"].tolist() == [0, 1, 0, 2]
    assert epsilons(SmallRun(), state, 1) == {"privacy/sample_epsilon": 2.0}
    assert answer(state, (2, 1)) == [3]
    assert state.uses["sample"].tolist() == [0, 2, 0, 2]  # what is not looked at is not spent


def test_a_round_with_too_few_budgets_left_stops_the_run():
    with pytest.raises(Stopped, match="privacy budgets of 1 of 2 clients"):
        answer(RunState(0, {}), (4, 1), needed=2)


def test_a_run_without_client_noise_has_no_epsilon():
    class Plain(SmallRun):
        client_privacy = {}  # noqa: RUF012

    assert epsilons(Plain(), RunState(0, {}), 1) == {}
