"""The cost of a round: who took part, what was sent, and what was measured of clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from torch import Tensor

from fedloom.core.aggregator import AggregatorMemory
from fedloom.core.message import Wave
from fedloom.rounds.jobs import Tensors


@dataclass(frozen=True)
class PlannedCosts:
    """What a round of the average size has: it says nothing of who was drawn.

    Args:
        clients: How many clients.
        steps: How many steps they make together, as the local work plans them.
    """

    clients: float
    steps: int


@dataclass
class RoundCosts:
    """What a round has cost so far, who took part, and what was measured of them."""

    bytes_down: int = 0
    bytes_up: int = 0
    bytes_between: int = 0
    steps: int = 0
    selected: set[int] = field(default_factory=set)
    measured: dict[int, dict[str, float]] = field(default_factory=dict)
    findings: dict[str, float] = field(default_factory=dict)
    """What an adversary found, or a sum, by the names of the records."""
    norms: list[Mapping[str, float]] = field(default_factory=list)
    """The usual sizes of replies, exchange by exchange, as far as the run's screen remembers them."""
    memory: AggregatorMemory = field(default_factory=AggregatorMemory)
    """What the run's aggregator remembers."""
    down: Mapping[str, Tensor] = field(default_factory=dict)
    """What the server remembers of the models that clients have."""
    counts_bytes: bool = True
    """Whether anything is sent at all: isolated and centralised training cost no bytes."""
    planned: PlannedCosts | None = None
    """What stands for the costs of a round whose clients nobody may learn."""

    def send(self, wave: Wave) -> None:
        """Add the bytes that a wave sends to its clients, including those that will not answer."""
        if not self.counts_bytes:
            return
        down = wave.message.bytes_for(len(wave.ids))
        near = 0 if wave.from_server is None else int((~wave.from_server).sum())
        self.bytes_between += down * near // len(wave.ids)
        self.bytes_down += down - down * near // len(wave.ids)

    def receive(self, wave: Wave, costs: Tensors, measured: Tensors) -> None:
        """Add the steps, bytes and measurements of a wave's answers."""
        if self.counts_bytes:
            sent = costs["bytes"] if wave.to_server is None else costs["bytes"][wave.to_server]
            self.bytes_up += int(sent.sum())
        self.selected.update(wave.ids)
        self.steps += int(costs["steps"].sum())
        for name, values in measured.items():
            for client, value in zip(wave.ids, values.tolist(), strict=True):
                self.measured.setdefault(client, {})[name] = value

    def hide_draws(self, planned: PlannedCosts) -> None:
        """Forget who took part: bytes and steps are those of a round of the average size, not of this one.

        Args:
            planned: What a round of the average size has.
        """
        # Exact: a float's last bit would depend on how many were drawn, and so would how half a byte is rounded.
        share = Fraction(planned.clients) / max(len(self.selected), 1)
        for name in ("bytes_down", "bytes_up", "bytes_between"):
            setattr(self, name, round(getattr(self, name) * share))
        self.planned, self.steps, self.selected = planned, planned.steps, set()
