"""Power-of-choice: some candidates are drawn by their size, and those with the largest loss take part.

Cho, Wang and Joshi, Towards Understanding Biased Client Selection in Federated Learning, AISTATS 2022 (pow-d, and
rpow-d as ``estimate="last"``). The paper evaluates the training loss; here a client that has a validation part
reports the loss on that. Capanema et al. (FedPredict with client selection) rank by the loss times the client's share
of the data: ``by_size``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.selector import Choice, Pool
from fedloom.selection.sampling import PerRound, draw_by_weight


@dataclass(frozen=True)
class PowerOfChoice(PerRound):
    """The clients with the largest loss among ``candidates`` drawn by size (by default among all).

    With as many candidates as a round has clients nobody is asked: that is random selection by size.
    """

    candidates: int | None = None
    by_size: bool = False
    """Rank by loss times share of the data."""
    estimate: Literal["full", "last"] = "full"
    """Ask the candidates for their loss, or reuse what they reported when they last took part."""

    def per_round(self, clients: int) -> int:
        """How many clients a round has; too few or too many candidates are refused."""
        number = super().per_round(clients)
        if self.candidates is not None and self.candidates < number:
            raise FedloomError(
                f"candidates={self.candidates} are fewer than the {number} clients of a round: "
                f"give at least {number}, or choose fewer clients."
            )
        if self.candidates is not None and self.candidates > clients:
            raise FedloomError(
                f"candidates={self.candidates}, but there are only {clients} clients: give at most {clients}."
            )
        return number

    def __call__(self, pool: Pool) -> Choice:
        """The candidates with the largest losses."""
        number = self.per_round(pool.size)
        drawn = draw_by_weight(pool.generator("candidates"), pool.samples, self.candidates or pool.size)
        if number == len(drawn):
            return Choice(drawn)
        if self.estimate == "full":
            return Choice(self._largest(pool, drawn, pool.ask(drawn).loss, number))
        known = pool.state.get("loss", torch.full((pool.size,), torch.inf))  # who never took part goes first
        chosen = self._largest(pool, drawn, known[torch.tensor(drawn)], number)
        return Choice(chosen, {"loss": known.index_copy(0, torch.tensor(chosen), pool.ask(chosen).loss)})

    def _largest(self, pool: Pool, drawn: list[int], losses: Tensor, number: int) -> list[int]:
        """Those with the largest losses; of equal ones, who was drawn first."""
        if self.by_size:
            losses = losses * pool.samples[torch.tensor(drawn)] / pool.samples.sum()
        order = losses.argsort(descending=True, stable=True)
        return [drawn[place] for place in order[:number].tolist()]
