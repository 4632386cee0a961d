"""What a server sees that isolates one client: it sends that client the model that the client itself sent last.

Everybody else gets the model of the run. So the victim trains alone on its own samples, as it believes with others, and
what its model knows is its own: the active form of mGAN-AI (Wang et al., INFOCOM 2019,
https://doi.org/10.1109/INFOCOM.2019.8737416). In its first exchange the victim gets what all others get. What it sends
counts in the run's mean as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from fedloom.attacks.seen_updates import Seen
from fedloom.audits.updates_of_run import LookingServer
from fedloom.config.method_spec import Method
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message, Replies, Wave
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task
from fedloom.runs.results.history import History
from fedloom.runs.run import run_on_task


@dataclass(frozen=True)
class IsolatingServer(LookingServer):
    """A server that notes what it sees, and sends one client that client's own model.

    Args:
        victim: The number of the client.
        models: The model that the victim sent last, under its number.
    """

    needs: ClassVar[Facts] = {Fact.FROM_SERVER: "sends its victim a model of the victim's own: choose another method"}

    victim: int = 0
    models: dict[int, Tensor] = field(default_factory=dict, compare=False, repr=False)

    def poison_message(self, wave: Wave, context: ServerContext) -> Message:
        """The same message, in which the victim has its own model."""
        message = wave.message
        if "row" not in message or not self.models.keys() & set(wave.ids):
            return message
        rows = message["row"].expand(len(wave.ids), -1).clone()
        rows[wave.ids.index(self.victim)] = self.models[self.victim]
        shared = {name: tensor for name, tensor in message.shared.items() if name != "row"}
        return replace(message, shared=shared, each={**message.each, "row": rows})

    def look_at_replies(self, wave: Wave, replies: Replies) -> Mapping[str, float]:
        """Note what came back, and what the victim made of its model."""
        if self.victim in replies.ids and "row" in replies.tensors:
            self.models[self.victim] = replies["row"][replies.ids.index(self.victim)].clone()
        return super().look_at_replies(wave, replies)


def updates_of_isolated(
    task: Task, method: Method = "fedavg", *, victim: int, **settings: Any
) -> tuple[list[Seen], History]:
    """Play a run whose server isolates a client, and return what it saw, in the order of its rounds.

    Args:
        victim: The number of the client.
        **settings: Settings of ``fl.run`` other than ``adversary``: ``rounds``, ``local``, ``channel`` ...

    Returns:
        What the server saw, an entry per client and exchange; and the run's history.
    """
    if "adversary" in settings:
        raise FedloomError("updates_of_isolated has a server that isolates: leave out adversary.")
    if not 0 <= victim < task.federation.clients:
        raise FedloomError(f"updates_of_isolated: there is no client {victim} to isolate.")
    server = IsolatingServer(victim=victim)
    history = run_on_task(task, method, adversary=server, **settings)
    if not any(victim in one.clients for one in server.seen):
        raise FedloomError(f"the server of this run saw no model of client {victim}: name one that takes part.")
    if not server.models:
        raise FedloomError(
            "clients of this run send no whole model, so that a server has none of the victim's own to send: choose a "
            "method that sends models."
        )
    return server.seen, history
