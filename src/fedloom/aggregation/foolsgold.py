"""FoolsGold: clients whose changes always point the same way count less.

Sybils push one aim, so the sums of their changes over all rounds are more alike than those of honest clients with data
of their own. A client's weight falls with its greatest cosine to any other (after pardoning honest ones that resemble a
sybil), and is sharpened by a logit. The changes of a round are averaged with these weights.

It promises that sybils, several clients that send alike, lose their weight, and nothing else. It cannot see a single
hostile client, whose update may have any size: put a robust rule behind it (``aggregation/chain.py``). Honest clients
with the same data look like sybils to it: where nobody's data differ, it throws everybody away. Hybrid methods send
parts of a model; each part has a history of its own.

Fung, Yoon and Beschastnikh, The Limitations of Federated Learning in Sybil Settings, RAID 2020,
https://arxiv.org/abs/1808.04866, algorithm 1 (all features count alike).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.aggregation.any_size import as_finite, cut_sizes
from fedloom.aggregation.changes import changes_of, moved_by
from fedloom.core.aggregator import AggregationContext, Aggregator
from fedloom.core.facts import Fact, Facts
from fedloom.core.settings import Positive

ROUNDING = 1e-9
"""A cosine so close to 1 is 1."""


@dataclass(frozen=True)
class FoolsGold(Aggregator):
    """The mean of changes, weighted by how little each client's history resembles another's.

    Args:
        confidence: How sharply the logit separates (the paper's kappa).
    """

    protects: ClassVar[str] = "less weight for clients whose updates are alike"

    breaks: ClassVar[Facts] = {Fact.OWN_INFLUENCE: "weighs each client by how its updates resemble those of others"}
    alone: ClassVar[str] = (
        "sees hostile clients that act alike, and a single one moves its mean anywhere: put a robust rule behind it, "
        'for instance aggregation = ["foolsgold", "multikrum"]'
    )

    confidence: Positive = 1.0

    @property
    def least_clients(self) -> int:
        """Two: one has nobody to resemble."""
        return 2

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The changes, by the trust in their clients; no change if nobody is trusted."""
        changes = cut_sizes(changes_of(rows, context))
        trust = self.trust(rows, context).to(changes)
        change = trust @ changes / trust.sum().clamp(min=1e-30)
        return moved_by(as_finite(change, rows), context)

    def trust(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The less the sum of a client's changes over all rounds resembles another's, the more it is trusted."""
        return self.trust_in(_histories(cut_sizes(changes_of(rows, context)), context))

    def trust_in(self, histories: Tensor) -> Tensor:
        """A number from 0 to 1 for each client.

        Args:
            histories: The sum of each client's changes so far.
        """
        directions = torch.nn.functional.normalize(histories.double(), dim=1)
        alike = (directions @ directions.T).fill_diagonal_(-torch.inf)
        greatest = alike.amax(1)
        if len(alike) == 1:
            return torch.ones(1, dtype=torch.float64)
        # The other resembles somebody even more. Negative cosines are trusted fully anyway.
        pardon = (greatest[:, None] < greatest) & (greatest[:, None] > 0)
        ratio = torch.where(pardon, greatest[:, None] / greatest, 1.0)
        trust = (1 - (alike * ratio).fill_diagonal_(-torch.inf).amax(1)).clamp(0, 1)
        trust[trust < ROUNDING] = 0
        if not bool(trust.any()):
            return trust
        trust = trust / trust.amax()
        logit = torch.logit(trust)  # plus and minus infinity at 1 and 0
        return (self.confidence * (logit + 0.5)).clamp(0, 1)


def _histories(changes: Tensor, context: AggregationContext) -> Tensor:
    """The sum of each client's changes with this round's, which is remembered for all clients seen so far."""
    if not context.ids:
        return changes
    ids, memory = torch.tensor(list(context.ids)), context.memory
    known, sums = memory.get("clients", ids[:0]), memory.get("sums", changes[:0])
    everybody = torch.unique(torch.cat([known, ids]))
    all_sums = changes.new_zeros(len(everybody), changes.shape[1])
    all_sums[torch.searchsorted(everybody, known)] = sums
    places = torch.searchsorted(everybody, ids)
    all_sums[places] += changes
    memory["clients"], memory["sums"] = everybody, all_sums
    return all_sums[places]
