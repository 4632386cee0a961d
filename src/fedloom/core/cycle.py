"""Local steps that come in groups, for methods whose step has several gradients in it.

MAML takes the gradient at a point one step ahead; a Moreau envelope is approached by several steps on one batch and
then moved towards; sharpness-aware steps take the gradient at a point uphill. All are cycles of plain steps with a
little arithmetic on rows in between, so they use the same training code as everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.inputs import Inputs, map_inputs

Slots = tuple[Tensor, ...]


@dataclass(frozen=True)
class Cycle:
    """What is done with each batch: ``len(lrs)`` gradient steps, the j-th with its own learning rate.

    The batch is dealt like cards into as many parts as ``parts`` names (D, D', D'' of MAML); step j sees part
    ``parts[j]``; a batch with fewer samples than parts is used whole each time. After step j,
    ``settle(j, before, after, slots) -> (rows, slots)`` says, without changing its arguments, what becomes of the rows
    and of what is remembered. Each of these is a matrix with a row per client: all numbers of its model that are
    trained, in the model's order. A norm is that of a row (``dim=1``): how many clients are in a matrix is up to the
    execution. Slots begin as the received rows; the first is the anchor, which is what ``pull`` sees as received.

    Args:
        lrs: The learning rate of each step.
        parts: The part of the batch that each step sees.
        settle: What becomes of the rows and the slots after a step.
        slots: How many matrices of rows are remembered.
        looks_back: Whether ``settle`` needs ``before``; where it does not, no copy is made and ``before`` is empty.
    """

    lrs: tuple[float, ...]
    parts: tuple[int, ...]
    settle: Callable[[int, Tensor, Tensor, Slots], tuple[Tensor, Slots]]
    slots: int = 1
    looks_back: bool = True

    @property
    def deals(self) -> int:
        """Into how many parts a batch is dealt."""
        return max(self.parts) + 1

    def cut(self, width: int, number: int) -> slice:
        """Which samples of one client's batch a step of the cycle sees."""
        return slice(None) if width < self.deals else slice(self.parts[number], None, self.deals)

    def deal(self, x: Inputs, y: Tensor, mask: Tensor | None, number: int) -> tuple[Inputs, Tensor, Tensor | None]:
        """The samples of many clients (clients × width) that a step sees, counted from 0 again for each client."""
        if mask is None:
            columns = self.cut(y.shape[1], number)
            return map_inputs(lambda tensor: tensor[:, columns], x), y[:, columns], None
        sizes, width = mask.sum(1, keepdim=True).long(), mask.shape[1]
        whole = sizes < self.deals
        places = torch.where(whole, 0, self.parts[number]) + torch.where(whole, 1, self.deals) * torch.arange(width)
        real = places < sizes
        some = real.any(0)
        clients, places = torch.arange(len(y)).unsqueeze(1), places[:, some].clamp(max=width - 1)
        return map_inputs(lambda tensor: tensor[clients, places], x), y[clients, places], real[:, some].float()
