"""What a cycle of local steps remembers while a cohort trains."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.core.cycle import Cycle


class CycleMemory:
    """Slots per moving tensor, and the values before a step."""

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
            self.start = [value.detach().clone() if self.cycle.looks_back else value.new_empty(0) for value in values]

    @torch.no_grad()
    def settle(self, number: int, values: list[Tensor], cut: slice | Tensor) -> None:
        """After a step of some clients: change their values and slots as the cycle says."""
        if self.cycle is None:
            return
        for name, before, value in zip(self.names, self.start, values, strict=True):
            old = tuple(slot[cut] for slot in self.slots[name])
            after = value.detach()
            new, slots = self.cycle.settle(number, before, after, old)
            pairs = zip((*old, after), (*slots, new), strict=True)
            moves = [(place, content) for place, content in pairs if content is not place]
            # rows and slots may change places: what is still to be read is copied before anything is written
            held = {id(tensor) for tensor in (*old, after)}
            for place, content in [(p, c.clone() if id(c) in held else c) for p, c in moves]:
                place.copy_(content)
            if not isinstance(cut, slice):
                for slot, content in zip(self.slots[name], old, strict=True):
                    slot[cut] = content
