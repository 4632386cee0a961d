"""The probe of a vocabulary: which tokens a client uses, by the embedding rows that its first update moved.

How right a list of tokens is: twice those that it has in common with the client's, over the lengths of both. Beside it
stands as long a list of what is frequent in the server's own samples; only what is above it is bad.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from fedloom.attacks.properties.vocabulary import VocabularyGuess, embedding_tables, vocabulary_guesses
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.membership_over_rounds import server_samples
from fedloom.audits.of_run.probes.probe import Measure, ProbeOutcome, clip
from fedloom.audits.updates_of_run import LookingServer
from fedloom.core.errors import FedloomError


def vocabulary_of_update(trial: Trial) -> ProbeOutcome:
    """What the server names of the tokens of clients, or of sums, in the first round."""
    task = trial.subject.prepare(trial.settings, trial.seed).composition.task
    tables = embedding_tables(task)
    if not tables:
        raise FedloomError(f"the model of task {task.name} has no table of tokens that an update could give away.")
    server = LookingServer()
    trial.play(server, rounds=1)
    if not server.seen:
        raise FedloomError("clients send no model whose table of tokens a server could look at.")
    own = server_samples(task, trial.seed)
    if not len(own):
        raise FedloomError("the server has no samples of its own to know usual tokens by: set task.test_share.")
    each = [_measures(vocabulary_guesses(task, server.seen, table, own)) for table in tables]
    of, by_sum = len(server.seen), server.seen[0].of_sum
    whose = f"the sum of {len(server.seen[0].clients)} clients" if by_sum else f"{of} single client{'s' * (of > 1)}"
    return ProbeOutcome(max(each, key=beyond_usual), note=f"of {whose}")


def beyond_usual(found: Mapping[str, Measure]) -> float:
    """How much of what a list of usual tokens leaves open is named.

    Args:
        found: What was measured.
    """
    usual = found["usual"].value
    return clip((found["named"].value - usual) / (1 - usual)) if usual < 1 else 0.0


def _measures(guesses: list[VocabularyGuess]) -> dict[str, Measure]:
    """The means over clients of one table."""
    found = {
        "named": mean(_agreement(one.precision, one.recall) for one in guesses),
        "usual": mean(_agreement(one.usual_precision, one.usual_recall) for one in guesses),
        "row_auc": mean(one.auc for one in guesses),
        "usual_auc": mean(one.usual_auc for one in guesses),
    }
    return {name: Measure(value) for name, value in found.items()}


def _agreement(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
