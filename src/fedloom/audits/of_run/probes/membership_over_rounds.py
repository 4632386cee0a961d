"""The probe of membership over rounds: a server that only looks asks every update that a client sends.

The server has samples of its own: the global test set, or every second sample of clients' test and validation parts
where there is none. Clients are asked about as they take part; their scores are means over the rounds that are played,
at most the first five, since the first one says most. Scores are taken as updates come, so that none is kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedloom.attacks.measures.guesses import judge_guesses
from fedloom.attacks.membership.update_alignment import alignment_scores
from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.attacks.seen_updates import Seen, seen_updates
from fedloom.audits.of_run.play.subject import RunSize
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.membership import LEAST, RARE, auc_variance, balanced, parts_of_client
from fedloom.audits.of_run.probes.probe import Measure, ProbeOutcome
from fedloom.audits.updates_of_run import LookingServer
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact
from fedloom.core.message import Replies, Wave
from fedloom.core.seeds import generator
from fedloom.core.task import Task

ROUNDS, CLIENTS = 5, 10
"""In how many rounds, and of how many clients at most."""
ASKED, OWN = 20, 300
"""About how many members of a client is asked, and as many others; and how many samples the server has, at most."""
NUMBERS = 20_000_000
"""How many numbers gradients of samples may be together: large models are asked with fewer samples."""
BACKWARD = 2
"""How many times as long the gradient of one sample takes as that of one in a batch."""
SECONDS = 2.0
"""About how long the products of gradients take, which do not depend on how long training does."""


@dataclass
class UpdateQuestions:
    """What a server asks of updates, and what they said so far.

    Args:
        seed: Draws the samples that are asked about.
        asked: Of each client as many members as others, members first.
        scores: Of each client the scores of its samples, a row per update.
        of_sum: How many clients the largest sum had: 1 for single updates, 0 before any was seen.
    """

    seed: int
    asked: dict[int, Tensor] = field(default_factory=dict)
    scores: dict[int, list[Tensor]] = field(default_factory=dict)
    of_sum: int = 0

    def put(self, task: Task, updates: list[Seen]) -> None:
        """Ask the updates of an exchange.

        Args:
            updates: What the server saw.
        """
        if task.has_named_inputs or not inputs_of(task, task.sample).is_floating_point():
            raise FedloomError(
                f"gradients of single samples are taken of inputs of numbers, and {task.name} has other."
            )
        own = server_samples(task, self.seed)
        most = NUMBERS // task.layout.width
        if min(most // 2, len(own)) < LEAST:
            why = f"the server has {len(own)} samples of its own" if most // 2 >= LEAST else "the model is too large"
            raise FedloomError(f"updates are held against gradients of {LEAST} samples and more, and {why}.")
        there = [client for update in updates for client in update.clients]
        self._choose(task, there, own, min(ASKED, most // 2))
        asked = {client: self.asked[client] for client in there if client in self.asked}
        some = [one for one in updates if asked.keys() & set(one.clients)]
        for client, scores in alignment_scores(task, some, asked, own[: min(OWN, most)]).items():
            self.scores.setdefault(client, []).append(scores)
        self.of_sum = max(self.of_sum, *(len(update.clients) for update in updates))

    def _choose(self, task: Task, clients: list[int], own: Tensor, most: int) -> None:
        """Choose samples of clients that were not seen before."""
        for client in clients:
            if client in self.asked or len(self.asked) == CLIENTS:
                continue
            members, others = (parts_of_client(task, client, which) for which in (True, False))
            others = others[~torch.isin(others, torch.cat([own, task.federation.train.order]))]
            if min(len(members), len(others)) >= LEAST:
                self.asked[client] = torch.cat(balanced(members, others, self.seed, most))

    def outcome(self, note: str) -> ProbeOutcome:
        """How well members were told from others, over all clients.

        Args:
            note: Whose updates were asked.
        """
        if not self.of_sum:
            raise FedloomError("clients send no model that a server could ask about.")
        if not self.scores:
            raise FedloomError(f"no client of the run has {LEAST} training and {LEAST} test samples to ask about.")
        halves = [torch.stack(some).mean(0).chunk(2) for some in self.scores.values()]
        found = judge_guesses(torch.cat([one for one, _ in halves]), torch.cat([other for _, other in halves]))
        error = 1.96 * math.sqrt(auc_variance(found))
        return ProbeOutcome(
            {
                "auc": Measure(found.auc, max(0.0, found.auc - error), min(1.0, found.auc + error)),
                "found_at_1_percent": Measure(found.rates[RARE].true_positives),
            },
            note=note,
        )


def membership_over_rounds(trial: Trial) -> ProbeOutcome:
    """What the server tells from all updates of clients, or of sums."""
    questions, rounds = UpdateQuestions(trial.seed), min(trial.rounds, ROUNDS)

    class QuestioningServer(LookingServer):
        grants = (Fact.SAME_START, Fact.ONLY_SUMS)

        def look_at_replies(self, wave: Wave, replies: Replies) -> Mapping[str, float]:
            trial.watch({})
            updates = seen_updates(wave, replies)
            if updates:
                questions.put(replies.context.task, updates)
            return {}

    trial.play(QuestioningServer(), rounds)
    asked, over = len(questions.scores), f"over {rounds} round{'s' * (rounds > 1)}"
    if questions.of_sum > 1:
        return questions.outcome(
            f"of the sum of {questions.of_sum} clients, {over}: the server cannot say who had a sample"
        )
    return questions.outcome(f"of {asked} single client{'s' * (asked > 1)}, {over}")


def server_samples(task: Task, seed: int) -> Tensor:
    """The positions of samples that the server has and that nobody trains on, in an order that is drawn."""
    made = task.federation
    own = made.global_test
    if len(own) < LEAST:
        own = torch.unique(torch.cat([made.test.order, made.valid.order]))[::2]
    own = own[~torch.isin(own, made.train.order)]
    return own[torch.randperm(len(own), generator=generator(seed, "audit/own"))]


def cost_over_rounds(size: RunSize) -> float:
    """The cost of the rounds, and of gradients of single samples in each."""
    asked = 2 * min(ASKED * min(CLIENTS, size.clients), size.samples)
    return min(size.rounds, ROUNDS) * (1 + BACKWARD * (OWN + asked) / size.samples)
