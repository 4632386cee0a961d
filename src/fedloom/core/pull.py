"""Pulls: extra gradients that a method adds to the gradient of the loss, elementwise in matching pieces of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

Pull = Callable[..., Tensor]
"""An extra gradient ``pull(rows, received, **given)``, elementwise in matching pieces of rows."""


@dataclass(frozen=True)
class Affine:
    """A pull that is affine in the rows with one slope: ``pull(rows) = slope * rows + pull(0)``.

    Proximal terms and control variates are affine. The part that does not depend on the rows is computed once per
    training, and the slope acts like weight decay, so a step costs hardly more than without a pull.

    Args:
        pull: The extra gradient ``pull(rows, received, **given)``, elementwise and affine in ``rows``.
    """

    pull: Pull

    def __call__(self, rows: Tensor, received: Tensor, **given: Tensor) -> Tensor:
        """The extra gradient."""
        return self.pull(rows, received, **given)

    def slope(self, given: Iterable[str]) -> float:
        """How much a row adds to its own gradient."""
        zero = torch.zeros(())
        return float(self.pull(torch.ones(()), zero, **dict.fromkeys(given, zero)))

    def constants(self, received: Tensor, given: Mapping[str, Tensor]) -> Tensor:
        """The part that does not depend on the rows: a row per client, or one row where it is the same for all."""
        if received.stride(0) == 0 and not given:  # all clients received the same row
            received = received[:1]
        return self.pull(torch.zeros(()), received, **given).expand_as(received)
