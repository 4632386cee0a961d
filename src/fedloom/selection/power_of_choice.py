"""Power-of-choice: draw candidates by size, and select those with the largest loss.

Cho, Wang and Joshi, Towards Understanding Biased Client Selection in Federated Learning, AISTATS 2022 (pow-d, and
rpow-d as ``estimate="last"``). Candidates are drawn by size, so the selected clients count alike in the average, as in
the paper: weights by size would count it twice. The paper evaluates the training loss (``loss_on = "training"``); by
default a client with a validation part reports its validation loss. Capanema et al. (FedPredict with client selection)
rank by the loss times the client's share of the data, ``by_size``, read the training loss, and weigh the chosen clients
by samples (``weight_by = "samples"`` of the run).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.selector import Choice, Pool
from fedloom.core.settings import Count
from fedloom.selection.sampling import PerRound, draw_by_weight


@dataclass(frozen=True)
class PowerOfChoice(PerRound):
    """Select the clients with the largest loss among ``candidates`` drawn by size (by default among all clients).

    If there are as many candidates as clients per round, no loss is needed: this is random selection by size.

    Args:
        fraction: The share of clients per round, rounded up.
        number: The number of clients per round, instead of ``fraction``.
        candidates: How many candidates are drawn; None takes all clients.
        by_size: Rank by loss times the client's share of the data.
        estimate: ``full`` asks all candidates for their loss; ``last`` reuses the loss of the last round they took
            part in.
        loss_on: The part whose loss counts: the ``validation`` part where a client has one, or the ``training`` part.
    """

    draws_by_size: ClassVar[bool] = True
    """Size is counted when clients are drawn, so it is not counted again in the average (``weight_by``)."""

    candidates: Count | None = None
    by_size: bool = False
    estimate: Literal["full", "last"] = "full"
    loss_on: Literal["validation", "training"] = "validation"

    def per_round(self, clients: int) -> int:
        """The number of clients per round; refuses too few or too many candidates."""
        number = super().per_round(clients)
        if self.candidates is not None and self.candidates < number:
            raise FedloomError(
                f"candidates={self.candidates} are fewer than the {number} clients of a round: "
                f"set candidates to at least {number}, or select fewer clients."
            )
        if self.candidates is not None and self.candidates > clients:
            raise FedloomError(
                f"candidates={self.candidates}, but there are only {clients} clients: set at most {clients}."
            )
        return number

    def __call__(self, pool: Pool) -> Choice:
        """Select the candidates with the largest losses."""
        number = self.per_round(pool.size)
        drawn = draw_by_weight(pool.generator("candidates"), pool.samples, self.candidates or pool.size)
        if number == len(drawn):
            return Choice(drawn)
        if self.estimate == "full":
            return Choice(self._largest(pool, drawn, pool.ask(drawn).loss, number))
        known = pool.state.get("loss", torch.full((pool.size,), torch.inf))  # clients that never took part come first
        chosen = self._largest(pool, drawn, known[torch.tensor(drawn)], number)
        return Choice(chosen, {"loss": known.index_copy(0, torch.tensor(chosen), pool.ask(chosen).loss)})

    def _largest(self, pool: Pool, drawn: list[int], losses: Tensor, number: int) -> list[int]:
        """The ``number`` candidates with the largest losses; ties go to the one drawn first."""
        if self.by_size:
            losses = losses * pool.samples[torch.tensor(drawn)] / pool.samples.sum()
        order = losses.argsort(descending=True, stable=True)
        return [drawn[place] for place in order[:number].tolist()]
