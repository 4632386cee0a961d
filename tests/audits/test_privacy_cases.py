"""The audit of privacy: no mechanism is told apart better than it states, and faults that were there are found."""

import itertools
from dataclasses import dataclass, replace

import pytest

import fedloom as fl
from fedloom.audits import privacy_cases as privacy_cases_module
from fedloom.audits.privacy_audit import AuditRow, audit_case
from fedloom.audits.privacy_cases import Overheard, RepliesCase, privacy_cases
from fedloom.core import cohort as cohort_module
from fedloom.core.seeds import numpy_generator
from fedloom.rounds import loop
from fedloom.rounds.composition import Composition
from fedloom.rounds.exchange.keeping import Keeping
from fedloom.rounds.exchange.screening import ReplyScreening
from fedloom.rounds.run_state import RunState
from fedloom.rounds.screen import Divergence

pytest.importorskip("dp_accounting", reason="needs dp-accounting")
CASES = {case.name: case for case in privacy_cases()}
FEW, MANY = 100, 1500


def audit(name: str, trials: int, confidence: float = 0.95, **changes: object) -> AuditRow:
    return audit_case(replace(CASES[name], **changes), trials, confidence)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_mechanism_tells_more_than_it_states(name):
    """A few trials, to see that all of them play: ``fedloom privacy --audit`` plays thousands."""
    row = audit(name, MANY if isinstance(CASES[name], RepliesCase) else FEW, confidence=1 - 1e-6)
    assert row.holds
    assert row.stated > 0.5  # one that adds more noise than it counts would pass, and protect nobody for its price


# -- faults of earlier versions, put back


@pytest.mark.slow
def test_draws_that_records_tell_are_found(monkeypatch):
    """Amplification was counted, and the seed and every record told who was drawn."""
    monkeypatch.setattr(Composition, "draws_are_secret", property(lambda _: False))
    rate, rounds = 0.3, 5  # enough that what is found is far above what is stated: 1.7 to 2.4, and 1.04

    def is_always_drawn(seed):
        return all(numpy_generator(seed, "selection", number).random(40)[0] < rate for number in range(1, rounds + 1))

    seed = next(filter(is_always_drawn, itertools.count()))
    settings = {"selection": {"name": "poisson", "rate": rate}, "seed": seed}
    row = audit("privatemean, poisson", 800, noise=1.5, rounds=rounds, settings=settings)
    assert not row.holds


@pytest.mark.slow
def test_a_screen_that_compares_clients_is_found(monkeypatch):
    """The canary decided whether clients with huge changes count: together they move the sum by five clip norms."""
    monkeypatch.setattr(loop, "line_of", lambda _: (Keeping(), ReplyScreening(Divergence())))
    task = privacy_cases_module.canary_task

    def not_quite_blank(*given):
        made = task(*given)
        made.model[0].weight.data += 1e-9  # of a model of zeros the screen says nothing
        return made

    monkeypatch.setattr(privacy_cases_module, "canary_task", not_quite_blank)
    assert not audit("privatemean, others that a screen would compare", 500).holds


@pytest.mark.slow
def test_rounds_that_are_played_again_and_not_counted_are_found(monkeypatch):
    monkeypatch.setattr(RunState, "plays", property(lambda state: state.round))
    assert not audit("privatemean, rounds played again", 150, crashes=24).holds


@dataclass(frozen=True)
class LargerBatches(Overheard):
    """Trains with all samples in every step, whatever the run's batch size is."""

    grants = (fl.Fact.ONLY_MEANS, fl.Fact.ONLY_TRAINING)

    def client_update(self, cohort, message):
        work = replace(cohort.setting.work, batch_size=0)
        return fl.Reply({"row": cohort.train(cohort.spread(message["row"]), work=work)})


@pytest.mark.slow
def test_batches_that_the_ledger_does_not_know_are_found(monkeypatch):
    case = CASES["sample_privacy (DP-SGD)"]
    assert isinstance(case, RepliesCase)
    case = replace(case, method=LargerBatches, rounds=6)
    with pytest.raises(fl.FedloomError, match="the privacy of samples is counted for"):
        audit_case(case, 4)
    monkeypatch.setattr(cohort_module, "check_private_work", lambda *_: None)
    assert not audit_case(case, MANY).holds
