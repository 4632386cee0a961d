"""What a cycle of local steps remembers while a cohort trains."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.core.cycle import Cycle
from fedloom.core.errors import FedloomError


class CycleMemory:
    """Slots of the moving tensors, and their values before a step: matrices with a whole row per client.

    A cycle sees whole rows, and not one tensor after another: the norm of a client's gradient is that of all of it.
    """

    def __init__(self, cycle: Cycle | None, received: dict[str, Tensor]) -> None:
        self.cycle = cycle
        self.shapes = {name: value.shape[1:] for name, value in received.items()}
        slots = 0 if cycle is None else cycle.slots
        self.slots = [join_rows(list(received.values())) for _ in range(slots)]
        self.start = torch.empty(0)

    def anchor(self, name: str, received: dict[str, Tensor]) -> Tensor:
        """A tensor's anchor; without a cycle, or for what does not move, what was received."""
        if self.cycle is None or name not in self.shapes:
            return received[name]
        start = 0
        for other, shape in self.shapes.items():
            if other == name:
                break
            start += shape.numel()
        return self.slots[0][:, start : start + self.shapes[name].numel()].reshape(received[name].shape)

    def before(self, values: list[Tensor]) -> None:
        """Note the values before a step."""
        if self.cycle is not None:
            self.start = join_rows(values) if self.cycle.looks_back else torch.empty(0)

    @torch.no_grad()
    def settle(self, number: int, values: list[Tensor], cut: slice | Tensor) -> None:
        """After a step of some clients: change their values and slots as the cycle says."""
        if self.cycle is None:
            return
        after, old = join_rows(values), tuple(slot[cut] for slot in self.slots)
        new, slots = self.cycle.settle(number, self.start, after, old)
        for content in (new, *slots):
            if content.shape != after.shape:
                raise FedloomError(
                    f"settle of a cycle gave a tensor of shape {tuple(content.shape)} for rows of shape "
                    f"{tuple(after.shape)}: return rows and slots of that shape, a row per client."
                )
        # rows and slots may change places: all that is still to be read is copied before anything is written
        held = {id(tensor) for tensor in (*old, after)}
        kept = [content.clone() if id(content) in held else content for content in slots]
        if new is not after:
            start = 0
            for value in values:
                end = start + value[0].numel()
                value.copy_(new[:, start:end].reshape(value.shape))
                start = end
        for slot, content in zip(self.slots, kept, strict=True):
            slot[cut] = content


def join_rows(values: list[Tensor]) -> Tensor:
    """A copy of some tensors as one matrix.

    Args:
        values: Tensors whose first axis is the client.
    """
    return torch.cat([value.detach().flatten(1) for value in values], dim=1)
