"""What is sent in a run: every message to a site and its answer, tensor by tensor, with their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedloom.secure.sum_step import SumStep

SELECTION, WORK, SCORING = "selection", "work", "scoring"
"""The purposes of messages to sites."""


@dataclass(frozen=True)
class SentTensor:
    """A tensor of one site's message or answer; ``counted`` says whether the simulator counts its bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    meaning: str
    counted: bool = True


@dataclass(frozen=True)
class Exchange:
    """A message to some sites, and what each of them answers."""

    round: int
    what: str
    clients: tuple[int, ...]
    down: tuple[SentTensor, ...]
    up: tuple[SentTensor, ...]

    @property
    def reaches(self) -> int:
        """Bytes that reach each of the sites."""
        return sum(tensor.bytes for tensor in self.down)

    @property
    def leaves(self) -> int:
        """Bytes that leave each of the sites."""
        return sum(tensor.bytes for tensor in self.up)


@dataclass(frozen=True)
class Explanation:
    """Everything that is sent in a run.

    ``records`` are the simulator's: of what precedes the first round, of the first round and of the second.
    """

    method: str
    task: str
    rounds: int
    clients: int
    exchanges: tuple[Exchange, ...]
    records: tuple[Mapping[str, Any], ...]
    kept: Mapping[str, str]
    """What stays at a site, in words."""
    scorings: int
    final: tuple[SentTensor, ...]
    """What a site gets at the end, to predict with."""
    model: int
    """Bytes of a whole model."""
    greeting: int
    header: int
    cross_site: bool = False
    evaluator: str | None = None
    sum_step: SumStep | None = None
    """How updates are hidden in sums, if they are."""
    hides_models: bool = False
    """Whether sites hand models to each other that the server cannot read."""
    limits: tuple[str, ...] = ()
    """What the server's settings limit, a sentence each; empty where they are not known."""

    def of(self, number: int, *what: str) -> list[Exchange]:
        """The exchanges of a round."""
        return [e for e in self.exchanges if e.round == number and e.what in what]

    def reply_bytes(self, number: int) -> int:
        """Bytes of all replies of a round, as they are sent."""
        return sum(len(e.clients) * p.bytes for e in self.of(number, WORK) for p in e.up if p.counted)

    def per_site(self, number: int, *what: str) -> tuple[int, int]:
        """The most bytes that reach and that leave one site in a round."""
        some = self.of(number, *what)
        totals = [
            (sum(e.reaches for e in some if c in e.clients), sum(e.leaves for e in some if c in e.clients))
            for c in range(self.clients)
        ]
        return max(down for down, _ in totals), max(up for _, up in totals)

    @property
    def later(self) -> int:
        """The round that represents all later ones."""
        return 2 if self.of(2, WORK) else 1

    @property
    def whole_run(self) -> tuple[int, int]:
        """Bytes that reach and that leave a site that takes part in every round; headers not counted."""
        first, again, early = (self.per_site(n, SELECTION, WORK) for n in (1, self.later, 0))
        scoring = self.per_site(1, SCORING)
        down, up = (early[i] + first[i] + (self.rounds - 1) * again[i] + self.scorings * scoring[i] for i in (0, 1))
        down += sum(tensor.bytes for tensor in self.final)
        if self.cross_site:
            down, up = down + sum(p.bytes for p in self.final) + self.clients * self.model, up + self.model
        return down, up + self.greeting
