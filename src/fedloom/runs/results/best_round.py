"""The best round of a run with early stopping, and its state."""

from __future__ import annotations

from fedloom.rounds.early_stopping import EarlyStopping, best_so_far
from fedloom.rounds.run_state import RunState
from fedloom.rounds.score import scores_of
from fedloom.runs.folder.checkpoint import load_best
from fedloom.runs.results.history import History


class BestRound:
    """The best round so far of a run that has a rule for stopping; without one, nothing happens here."""

    def __init__(self, rule: EarlyStopping | None, history: History) -> None:
        self.rule, self.history = rule, history
        self.state: RunState | None = None
        self.is_over = False

    def find(self, state: RunState) -> None:
        """Find the best round of a run that continues from a state after a stop."""
        number = self._best()
        if number == state.round:
            self.state = state.copy()
        elif number is not None and self.history.folder is not None:
            self.state = load_best(self.history.folder, number, state.client_states.clients)

    def update(self, state: RunState) -> None:
        """Keep the state after a round if the round is the best."""
        if self._best() == state.round:
            self.state = state.copy()

    def _best(self) -> int | None:
        if self.rule is None:
            return None
        progress = best_so_far(self.history.records, self.rule, scores_of(self.history.config))
        self.is_over = progress is not None and progress.is_over
        return None if progress is None else progress.best
