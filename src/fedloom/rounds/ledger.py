"""The cost of a round: who took part, what was sent, and what was measured of clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from fedloom.core.aggregation_context import AggregatorMemory
from fedloom.core.message import Wave
from fedloom.rounds.jobs import Tensors
from fedloom.secure.sums import Summed


@dataclass
class Ledger:
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

    def send(self, wave: Wave) -> None:
        """Add the bytes that a wave sends to its clients, including those that will not answer."""
        down = wave.message.bytes_for(len(wave.ids))
        near = 0 if wave.from_server is None else int((~wave.from_server).sum())
        self.bytes_between += down * near // len(wave.ids)
        self.bytes_down += down - down * near // len(wave.ids)

    def receive(self, wave: Wave, merged: Tensors, communicates: bool) -> None:
        """Add the steps, bytes and measurements of a wave's replies."""
        if communicates:
            sent = merged["bytes"] if wave.to_server is None else merged["bytes"][wave.to_server]
            self.bytes_up += int(sent.sum())
        self._note(wave.ids, merged)

    def receive_sum(self, ids: list[int], merged: Tensors, summed: Summed, scaled: int) -> None:
        """Add the same of clients whose replies came as a sum, and how many of them had to make theirs smaller."""
        self.bytes_up += summed.bytes_up
        self.bytes_down += summed.bytes_down
        if scaled:
            self.findings["sums/scaled"] = self.findings.get("sums/scaled", 0.0) + scaled
        self._note(ids, merged)

    def _note(self, ids: list[int], merged: Tensors) -> None:
        self.selected.update(ids)
        self.steps += int(merged["steps"].sum())
        for name in (name for name in merged if name.startswith(("received/", "trained/"))):
            for client, value in zip(ids, merged[name].tolist(), strict=True):
                self.measured.setdefault(client, {})[name] = value
