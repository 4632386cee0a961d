"""What a run carries from round to round: plain tensors and numbers, so that it can be stopped and resumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.rounds.client_states import ClientStates
from fedloom.rounds.composition import Composition
from fedloom.rounds.method_check import check_state

PARTS = ("server", "optimizer", "selection", "norms", "aggregator", "uses", "down", "formed")
"""The names of a state's parts that are tensors by name."""
PLAYS = "rounds"
"""The name under which rounds of a private run are counted."""


@dataclass
class RunState:
    """The state after a round: the server's, the server optimiser's, the clients' and the selector's.

    ``norms`` are the usual sizes of the replies so far, where the run's screen remembers them; ``aggregator`` is what
    the run's aggregator remembers; ``uses`` is how often each client used its own noise, by the kind of noise, and how
    often rounds were played under a private mean; ``down`` is what the server remembers of the models that clients
    have, where they go down as differences; ``formed`` has the groups of clients as they were formed before round 1,
    where hostile clients are drawn from them.
    """

    round: int
    server: State
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    client_states: ClientStates = field(default_factory=lambda: ClientStates(0))
    selection: dict[str, Tensor] = field(default_factory=dict)
    norms: dict[str, Tensor] = field(default_factory=dict)
    aggregator: dict[str, Tensor] = field(default_factory=dict)
    uses: dict[str, Tensor] = field(default_factory=dict)
    down: dict[str, Tensor] = field(default_factory=dict)
    formed: dict[str, Tensor] = field(default_factory=dict)

    @property
    def plays(self) -> int:
        """How many rounds of a private run were begun, also those that came to nothing: each may tell something."""
        return int(self.uses.get(PLAYS, torch.zeros(1)))

    def count_plays(self, more: int = 1) -> None:
        """Count rounds of a private run that begin, or that are known to have been played."""
        self.uses[PLAYS] = torch.tensor([self.plays + more])

    def remember(self, exchanges: Iterable[Mapping[str, float]]) -> None:
        """Append the usual sizes of a round's replies, exchange by exchange."""
        for exchange in exchanges:
            for name, norm in exchange.items():
                earlier = self.norms.get(name, torch.zeros(0, dtype=torch.float64))
                self.norms[name] = torch.cat([earlier, torch.tensor([norm], dtype=torch.float64)])

    def copy(self) -> RunState:
        """The same state, which later rounds do not change."""
        copies = {part: {name: tensor.clone() for name, tensor in getattr(self, part).items()} for part in PARTS}
        return RunState(self.round, client_states=self.client_states.copy(), **copies)


def initial_state(run: Composition) -> RunState:
    """The state before the first round."""
    server = run.algorithm.start(run.task)
    check_state(run.algorithm, server)
    return RunState(0, server, {}, ClientStates(run.task.federation.clients))


def packed_groups(groups: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Groups of clients as tensors.

    Args:
        groups: The clients of each group.
    """
    members = [client for group in groups for client in group]
    sizes = [len(group) for group in groups]
    return {"members": torch.tensor(members, dtype=torch.int64), "sizes": torch.tensor(sizes, dtype=torch.int64)}


def unpacked_groups(tensors: Mapping[str, Tensor]) -> list[list[int]]:
    """The groups that ``packed_groups`` made tensors of."""
    return [group.tolist() for group in torch.split(tensors["members"], tensors["sizes"].tolist())]
