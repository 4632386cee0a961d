"""Aggregators in turn: some mix rows or say how far they trust each client, one makes the row, and some refine it.

``aggregation = ["foolsgold", "multikrum"]``: FoolsGold finds sybils, which Multi-Krum takes for honest clients that
agree, and Multi-Krum a single hostile client, which FoolsGold cannot see. Clients whom an earlier rule does not trust
at all are left out of what the next one gets; the weights of the others are multiplied by the trust in them, for rules
that use weights. A robust rule uses none: there a client counts, or it does not. If nobody is trusted, nothing changes.
A rule that mixes (``nnm``) hands on other rows, one for each client. Behind the rule that makes the row may stand those
that work on it (``servertraining``).

Each rule states its own facts: what any of them needs, the run has to have. A rule behind another gets fewer rows, and
may withstand fewer hostile ones among them than its settings promise; the record of the round has it then.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from fedloom.aggregation.changes import moved_by
from fedloom.core.aggregator import AggregationContext, Aggregator
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.privacy import PlannedRun, Privacy
from fedloom.core.task import Task


@dataclass(frozen=True)
class AggregatorChain(Aggregator):
    """Rules that act in turn.

    Args:
        rules: The rules, in order: those with ``trust`` or ``mix``, the one that makes the row, those with ``refine``.
    """

    rules: tuple[Aggregator, ...]

    def __post_init__(self) -> None:
        """Its rules have checked their settings themselves."""

    @staticmethod
    def of(rules: Sequence[Aggregator]) -> Aggregator:
        """Some rules as one; a single one as it is."""
        if not rules:
            raise FedloomError("aggregation=[]: name at least one aggregator, or leave it out for the mean.")
        return rules[0] if len(rules) == 1 else AggregatorChain(tuple(rules))

    @property
    def name(self) -> str:
        """The names of its rules."""
        return ", ".join(rule.name for rule in self.rules)

    @property
    def members(self) -> tuple[Aggregator, ...]:
        """Its rules."""
        return self.rules

    @property
    def maker(self) -> int:
        """The place of the rule that makes the row: the first that can do nothing else, or the last."""
        makers = (place for place, rule in enumerate(self.rules) if not (_has("trust", rule) or _has("mix", rule)))
        return next(makers, len(self.rules) - 1)

    @property
    def least_clients(self) -> int:
        """As many as each of its rules needs."""
        return max(rule.least_clients for rule in self.rules)

    def tolerated(self, clients: int) -> int | None:
        """What the rule that makes the row withstands of all; of those that are left it is noted in the round."""
        return self.rules[self.maker].tolerated(clients)

    def withstands_rest(self, clients: int, gone: int) -> bool:
        """Whether each of its rules does."""
        return all(rule.withstands_rest(clients, gone) for rule in self.rules)

    def planned(self, plan: PlannedRun) -> Self:
        """The same, with what follows from the run for each rule."""
        return replace(self, rules=tuple(rule.planned(plan) for rule in self.rules))

    def ledger(self, plan: PlannedRun) -> Privacy | None:
        """The ledger of the rule that makes the row."""
        return self.rules[self.maker].ledger(plan)

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Let each rule refuse what it cannot serve; behind one that makes a row can only be rules that refine it."""
        maker = self.rules[self.maker]
        for rule in self.rules[self.maker + 1 :]:
            if not _has("refine", rule):
                raise FedloomError(
                    f"aggregation: {maker.name} makes one row and leaves nothing for {rule.name}: only rules that say "
                    "how far they trust each client, such as foolsgold, or that mix rows, such as nnm, can stand "
                    "before another, and only servertraining behind."
                )
        for rule in self.rules:
            rule.check(algorithm, task)

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The row that one rule makes of what those before it leave of the clients' rows, as those behind refine it."""
        memory, row = context.memory, self._row(rows, weights, context)
        for place, rule in enumerate(self.rules[self.maker + 1 :], self.maker + 1):
            context = replace(context, memory=_memory_of(place, memory))
            row = rule.refine(row, context)
            _remember(place, context, memory)
        return row

    def _row(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The row that one rule makes of what those before it leave."""
        memory, maker = context.memory, self.rules[self.maker]
        for place, rule in enumerate(self.rules[: self.maker]):
            context = replace(context, memory=_memory_of(place, memory))
            if _has("mix", rule):
                context.note_tolerated(rule, len(rows))
                rows = rule.mix(rows, context)
                continue
            trust = rule.trust(rows, context).to(weights)
            _remember(place, context, memory)
            places = trust.nonzero().flatten()
            if not len(places):
                return moved_by(torch.zeros_like(rows[0]), context)
            rows, weights, context = rows[places], (weights * trust)[places], _only(places, context)
        context = replace(context, memory=_memory_of(self.maker, memory))
        context.note_tolerated(maker, len(rows))
        row = maker(rows, weights / weights.sum(), context)
        _remember(self.maker, context, memory)
        return row


def _has(hook: str, rule: Aggregator) -> bool:
    """Whether a rule has a function that most have not."""
    return getattr(type(rule), hook) is not getattr(Aggregator, hook)


def _only(places: Tensor, context: AggregationContext) -> AggregationContext:
    """What the server has of the clients at some places."""
    origin = context.origin
    return replace(
        context,
        ids=[context.ids[place] for place in places.tolist()] if context.ids else (),
        origin=origin if origin is None or origin.dim() == 1 else origin[places],
    )


def _memory_of(place: int, memory: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the rule at a place of the chain remembers, out of what the chain does."""
    prefix = f"{place}."
    return {name.removeprefix(prefix): tensor for name, tensor in memory.items() if name.startswith(prefix)}


def _remember(place: int, context: AggregationContext, memory: MutableMapping[str, Tensor]) -> None:
    memory.update({f"{place}.{name}": tensor for name, tensor in context.memory.items()})
