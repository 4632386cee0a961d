"""What a run carries from round to round: plain tensors and numbers, so that it can be stopped and resumed."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.rounds.client_states import ClientStates
from fedloom.rounds.composition import Composition
from fedloom.rounds.method_check import check_state


@dataclass
class RunState:
    """The state after a round: the server's, the server optimiser's, the clients' and the selector's."""

    round: int
    server: State
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    client_states: ClientStates = field(default_factory=lambda: ClientStates(0))
    selection: dict[str, Tensor] = field(default_factory=dict)

    def copy(self) -> RunState:
        """The same state, which later rounds do not change."""
        server, optimizer, selection = (
            {name: tensor.clone() for name, tensor in tensors.items()}
            for tensors in (self.server, self.optimizer, self.selection)
        )
        return RunState(self.round, server, optimizer, self.client_states.copy(), selection)


def initial_state(run: Composition) -> RunState:
    """The state before the first round."""
    server = run.algorithm.start(run.task)
    check_state(run.algorithm, server)
    return RunState(0, server, {}, ClientStates(run.task.federation.clients))
