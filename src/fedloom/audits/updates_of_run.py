"""What the server of a run saw of its clients, exchange by exchange: for attacks that look at more than one round.

It plays the run with a server that only looks, and the run is the plain run to the byte.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fedloom.attacks.seen_updates import Seen, seen_updates
from fedloom.config.method_spec import Method
from fedloom.core.attack import Attack
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Replies, Wave
from fedloom.core.task import Task
from fedloom.runs.results.history import History
from fedloom.runs.run import run_on_task


@dataclass(frozen=True)
class LookingServer(Attack):
    """A server that notes what it sees. A subclass that looks in another way says what it needs (``grants``).

    Args:
        seen: What it saw; it grows with the exchanges.
    """

    needs: ClassVar[Facts] = {
        Fact.EXCHANGES: "reads what clients send: choose another method",
        Fact.UPDATES: "reads models that clients trained, or their changes: choose another method",
        Fact.MODEL_DOWN: "compares what clients send with the model that they got: choose another method",
    }
    grants: ClassVar[Collection[Fact]] = (Fact.SAME_START, Fact.ONLY_SUMS)

    seen: list[Seen] = field(default_factory=list, compare=False, repr=False)

    def look_at_replies(self, wave: Wave, replies: Replies) -> Mapping[str, float]:
        """Note what came back, and record nothing."""
        self.seen.extend(seen_updates(wave, replies))
        return {}


def updates_of_run(task: Task, method: Method = "fedavg", **settings: Any) -> tuple[list[Seen], History]:
    """Play a run, and return what its server saw, in the order of its rounds.

    Args:
        **settings: Settings of ``fl.run`` other than ``adversary``: ``rounds``, ``local``, ``channel`` ...

    Returns:
        What the server saw, an entry per client and exchange, or one per sum; and the run's history.
    """
    if "adversary" in settings:
        raise FedloomError("updates_of_run has a server that looks: leave out adversary.")
    server = LookingServer()
    history = run_on_task(task, method, adversary=server, **settings)
    if not server.seen:
        raise FedloomError("the server of this run saw no model come back: choose a method that sends models.")
    return server.seen, history
