"""One round as it is played: what every station on the way of a wave may use."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.server_context import ServerContext
from fedloom.rounds.client_work import Report, report_nothing
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import Engine
from fedloom.rounds.round_costs import RoundCosts
from fedloom.rounds.run_state import RunState


@dataclass(frozen=True)
class RoundContext:
    """A round of a run.

    Args:
        run: What the run is made of.
        engine: Where clients' jobs run.
        state: The run's state before the round; client states and counts of privacy are written to it as answers come.
        server: What the server half of the method may use.
        costs: What the round has cost so far.
        measure: Whether clients evaluate the models that they receive and train.
        report: Called with the work of each client whose answer counts.
    """

    run: Composition
    engine: Engine
    state: RunState
    server: ServerContext
    costs: RoundCosts
    measure: bool = False
    report: Report = report_nothing

    @property
    def number(self) -> int:
        """The round, counted from 1; 0 is the prelude."""
        return self.server.round
