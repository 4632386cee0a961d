"""The probe of a server that subtracts secure sums: what is left of two that differ by one client is asked about it."""

from __future__ import annotations

from fedloom.attacks.sum_differences import sum_differences
from fedloom.audits.of_run.play.subject import RunSize
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.membership_over_rounds import UpdateQuestions
from fedloom.audits.of_run.probes.probe import ProbeOutcome
from fedloom.audits.updates_of_run import LookingServer
from fedloom.core.errors import FedloomError

ROUNDS = 30
"""In how many rounds sums are compared at most; each of them is kept."""


def membership_by_differences(trial: Trial) -> ProbeOutcome:
    """What the server tells of single clients by the differences of sums."""
    if trial.subject.prepare(trial.settings, trial.seed).composition.sums is None:
        raise FedloomError("no sums are sent in this run: the server needs no differences to see single clients.")
    server, questions = LookingServer(), UpdateQuestions(trial.seed)
    rounds = min(trial.rounds, ROUNDS)
    task = trial.play(server, rounds).task
    found = sum_differences(server.seen)
    if not found:
        raise FedloomError(
            f"no two sums of {rounds} round{'s' * (rounds > 1)} differ by one client: it happens where clients are "
            "drawn, or drop out."
        )
    for update in found:
        trial.watch({})
        questions.put(task, [update])
    return questions.outcome(f"of {len(found)} differences of sums over {rounds} rounds")


def cost_of_differences(size: RunSize) -> float:
    """The cost of the rounds; only a run with sums takes longer."""
    return float(min(size.rounds, ROUNDS))
