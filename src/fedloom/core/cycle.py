"""Local steps that come in groups, for methods whose step has several gradients in it.

MAML takes the gradient at a point one step ahead; a Moreau envelope is approached by several steps on one batch and
then moved towards. Both are cycles of plain steps with something elementwise in between, so they run on the same
machinery, and at the same speed, as everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Slots = tuple[Tensor, ...]


@dataclass(frozen=True)
class Cycle:
    """What is done with each batch: ``len(lrs)`` gradient steps, the j-th with its own learning rate.

    The batch is dealt into as many parts as ``parts`` names (D, D', D'' of MAML); step j sees part ``parts[j]``; a
    batch with fewer samples than parts is used whole each time. After step j,
    ``settle(j, before, after, slots) -> (rows, slots)`` says, elementwise, what becomes of the rows and of what is
    remembered. Slots begin as the received rows; the first is the anchor, which is what ``pull`` sees as received.
    """

    lrs: tuple[float, ...]
    parts: tuple[int, ...]
    settle: Callable[[int, Tensor, Tensor, Slots], tuple[Tensor, Slots]]
    slots: int = 1

    @property
    def deals(self) -> int:
        """Into how many parts a batch is dealt."""
        return max(self.parts) + 1

    def cut(self, width: int, number: int) -> slice:
        """The columns of an unpadded batch that a step of the cycle sees."""
        return slice(None) if width < self.deals else slice(self.parts[number], None, self.deals)

    def seen(self, mask: Tensor, number: int) -> Tensor:
        """The same for padded batches (clients × width): the mask of what a step sees."""
        mine = (torch.arange(mask.shape[1]) % self.deals == self.parts[number]).float()
        return torch.where(mask.sum(1, keepdim=True) < self.deals, mask, mask * mine)


class Memory:
    """What a cycle remembers while a cohort trains: slots per moving tensor, and the values before a step."""

    def __init__(self, cycle: Cycle | None, received: dict[str, Tensor]) -> None:
        self.cycle, self.names = cycle, list(received)
        slots = 0 if cycle is None else cycle.slots
        self.slots = {name: tuple(value.detach().clone() for _ in range(slots)) for name, value in received.items()}
        self.start: list[Tensor] = []

    def anchor(self, name: str, received: dict[str, Tensor]) -> Tensor:
        """A tensor's anchor; without a cycle, or for what does not move, what was received."""
        if self.cycle is None or name not in self.slots:
            return received[name]
        return self.slots[name][0].view_as(received[name])

    def before(self, values: list[Tensor]) -> None:
        """Note the values before a step."""
        if self.cycle is not None:
            self.start = [value.detach().clone() for value in values]

    @torch.no_grad()
    def settle(self, number: int, values: list[Tensor], cut: slice | Tensor) -> None:
        """After a step of some clients: change their values and slots as the cycle says."""
        if self.cycle is None:
            return
        for name, before, value in zip(self.names, self.start, values, strict=True):
            old = tuple(slot[cut] for slot in self.slots[name])
            new, slots = self.cycle.settle(number, before, value.detach(), old)
            for slot, content in zip(self.slots[name], slots, strict=True):
                slot[cut] = content
            if new is not value:
                value.detach().copy_(new)
