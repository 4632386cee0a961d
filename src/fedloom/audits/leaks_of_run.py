"""What a server that attacks a run rebuilds of its clients' samples, beside the samples themselves.

The records of a run have the numbers (``adversary/psnr``, ...); this has the samples, for a page or for a look. It
plays the run, and so needs the clients' samples: nothing of the kind exists for a deployment.
"""

from __future__ import annotations

from typing import Any

from fedloom.attacks.reconstruction.rebuilt import Rebuilt
from fedloom.attacks.reconstruction.server_attack import ServerAttack
from fedloom.config.method_spec import Method
from fedloom.core.errors import FedloomError
from fedloom.core.message import Replies, Wave
from fedloom.core.task import Task
from fedloom.registry.kinds import ATTACKS
from fedloom.registry.plain_values import hyperparameters
from fedloom.runs.run import run_on_task


def leaks_of_run(task: Task, method: Method, attack: ServerAttack | str, **settings: Any) -> list[Rebuilt]:
    """What the server rebuilds: of each client that it reads, or of a sum.

    Args:
        **settings: Other settings of ``fl.run``: ``rounds``, ``local``, ``channel``, ``sample_privacy`` ...
    """
    made = ATTACKS.make(attack) if isinstance(attack, str) else attack
    if not isinstance(made, ServerAttack):
        name = type(made).__name__.lower()
        raise FedloomError(
            f"{name} rebuilds no samples: use linearleak, gradientinversion, trapweights or classfishing."
        )
    found: list[Rebuilt] = []
    run_on_task(task, method, adversary=watch_leaks(made, found), **settings)
    return found


def watch_leaks(attack: ServerAttack, found: list[Rebuilt]) -> ServerAttack:
    """The same attack, which adds what it rebuilds to a list."""
    kind: type[ServerAttack] = type(attack)

    class Watched(kind):  # type: ignore[misc, valid-type]
        def leaks(self, wave: Wave, replies: Replies) -> list[Rebuilt]:
            rebuilt: list[Rebuilt] = super().leaks(wave, replies)
            found.extend(rebuilt)
            return rebuilt

    Watched.__name__ = kind.__name__
    watched: ServerAttack = Watched(**hyperparameters(attack))
    return watched
