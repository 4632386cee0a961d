"""What a method is: five small functions, of which most methods write one or two.

The server half (``start``, ``broadcast``, ``aggregate``) and the client half (``client_update``, ``weights_for``)
meet only in messages, so the same class runs in simulation and on deployed machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.task import Held, Task

ServerStep = Callable[[Tensor, Tensor, Mapping[str, Tensor]], tuple[Tensor, dict[str, Tensor]]]
"""``(row, mean of the clients' rows, state) -> (new row, new state)``."""
State = Mapping[str, Tensor]
"""What the server remembers from round to round: named tensors, never changed in place."""


@dataclass(frozen=True)
class Algorithm:
    """A method. Its hyper-parameters are its fields; it holds no state of its own."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    travels: ClassVar[bool] = True
    """False when nothing is sent (isolated and centralised training): such a run counts no bytes."""

    @property
    def server(self) -> ServerStep | None:
        """A server optimiser that belongs to the method; most have none."""
        return None

    def start(self, task: Task) -> State:
        """The server's state before the first round. A shared model is called ``row``."""
        return {"row": task.initial_row()}

    def trains_on(self, federation: Held) -> Held:
        """The federation that is trained on (centralised training pools it)."""
        return federation

    def broadcast(self, server: State, ids: list[int]) -> Message:
        """What goes down to the clients of a round."""
        return Message({"row": server["row"]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        """What clients do with a message, their data and what they kept; what goes up."""
        raise TypeError(f"{type(self).__name__} has no client_update")

    def aggregate(self, server: State, replies: Replies) -> State:
        """The server's state after a round."""
        return {**server, "row": replies.mean("row")}

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        """What clients predict with: one row for all, or a row per client of the cohort."""
        return message["row"]
