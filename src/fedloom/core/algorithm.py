"""What a method is: five small functions, of which most methods write one or two.

The server half (``start``, ``broadcast``, ``aggregate``) and the client half (``client_update``, ``weights_for``)
meet only in messages, so the same class runs in simulation and on deployed machines.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply, Wave
from fedloom.core.server_context import ServerContext
from fedloom.core.task import FederationView, Task

ServerStep = Callable[[Tensor, Tensor, Mapping[str, Tensor]], tuple[Tensor, dict[str, Tensor]]]
"""``(row, mean of the clients' rows, state) -> (new row, new state)``."""
State = Mapping[str, Tensor]
"""What the server remembers from round to round: named tensors, never changed in place."""
Round = Generator[Wave, Replies, State]
"""A round as the server plays it: ``replies = yield Wave(...)`` as often as needed, then return the new state."""


@dataclass(frozen=True)
class Algorithm:
    """A method. Its hyper-parameters are its fields; it holds no state of its own."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    travels: ClassVar[bool] = True
    """False when nothing is sent (isolated and centralised training): such a run counts no bytes."""
    whole: ClassVar[bool] = True
    """Whether the shared ``row`` is a whole model, worth scoring on the global test set; a shared body is not."""
    personal: ClassVar[bool] = False
    """Whether clients predict with a model that is wholly their own, to which a global one has nothing to add."""
    trains: ClassVar[bool] = True
    """Whether clients train a model of their own between a message and the answer (in FedSGD they do not)."""

    on_graphs: ClassVar[bool] = False
    """Whether the method means something on clients' graphs only."""

    @property
    def server(self) -> ServerStep | None:
        """A server optimiser that belongs to the method; most have none."""
        return None

    @property
    def compiles(self) -> bool:
        """Whether clients only take plain steps on the task's loss, which is what ``compiled`` execution can do."""
        return True

    @property
    def averages_every_round(self) -> bool:
        """Whether the shared row after a round is an average to go on from, which a server optimiser needs."""
        return True

    def start(self, task: Task) -> State:
        """The server's state before the first round. A shared model is called ``row``."""
        return {"row": task.initial_row()}

    def trains_on(self, federation: FederationView, new: Sequence[int]) -> FederationView:
        """The federation that is trained on (centralised training pools it, without the new clients)."""
        return federation

    def check(self, task: Task, work: LocalWork) -> None:
        """Refuse, in one sentence and before anything is done, what the method cannot mean anything for."""

    def prelude(self, server: State, context: ServerContext) -> Round | None:
        """What happens once, before the first round; nothing in most methods."""
        return None

    def groups(self, server: State) -> list[list[int]] | None:
        """What a round selects: clients (None), or groups of clients, of which ``play`` then gets the numbers."""
        return None

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        """One round; most methods are one wave."""
        replies = yield Wave(ids, self.broadcast(server, ids))
        return self.aggregate(server, replies)

    def finished(self, server: State) -> bool:
        """Whether the method has nothing more to do, before the run's last round."""
        return False

    def enter(self, cohort: Cohort) -> None:
        """Before clients do anything: put what they kept into their data (edges that a client added to its graph)."""

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
