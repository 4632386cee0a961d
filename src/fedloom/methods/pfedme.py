"""pFedMe: personal models held near a shared model, which follows them. FedAvg on Moreau envelopes.

On each batch ``inner_steps`` of ``theta <- theta - lr * (gradient + lam * (theta - w))``, then
``w <- w - eta * lam * (w - theta)``. The client keeps theta, predicts with it, and sends w; the server takes
``(1 - beta) * w + beta * mean``. A client that never trained predicts with w.

Dinh, Tran and Nguyen, Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020,
https://arxiv.org/abs/2006.08848. As in the authors' code theta starts each round at the received w; only selected
clients work (there, all of them do). The paper's lam = 15 and eta = 0.005 need hundreds of rounds of 20 batches; our
defaults learn in tens. The paper weights clients alike (``weight_by = "uniform"``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.cycle import Cycle, Slots
from fedloom.core.declarations import Kept
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.settings import Count, Positive
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.requirements import require_plain_sgd


@dataclass(frozen=True)
class PFedMe(FedAvg):
    """Personal models ``theta`` held near a shared model ``w``, which follows them.

    Args:
        lam: Weight of the pull of theta towards w.
        inner_steps: Gradient steps of theta per batch.
        eta: Learning rate of w; ``eta * lam`` must not exceed 1.
        beta: Share of the clients' mean in the new shared model.
    """

    breaks: ClassVar[Facts] = {
        Fact.SHARED_PREDICTION: "gives every client an entirely personal model",
        Fact.ONE_STEP: "takes several steps per batch",
    }
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_MEANS,)
    keeps: ClassVar[Kept] = {"theta": "the site's personal model"}

    lam: Positive = 1.0
    inner_steps: Count = 5
    eta: Positive = 0.5
    beta: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta * self.lam > 1:
            raise FedloomError(
                f"eta={self.eta:g} with lam={self.lam:g}: their product is the share of the way from w to theta, and "
                "must not exceed 1."
            )

    def check(self, task: Task, work: LocalWork) -> None:
        require_plain_sgd("pfedme's local step", work)
        if work.lr * self.lam >= 2:
            raise FedloomError(
                f"lam={self.lam:g} with local.lr={work.lr:g}: the inner steps overshoot from a product of 2 on; use "
                f"local.lr below {2 / self.lam:.3g}, or a smaller lam."
            )

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        def settle(step: int, _: Tensor, theta: Tensor, slots: Slots) -> tuple[Tensor, Slots]:
            if step < self.inner_steps - 1:
                return theta, slots
            (w,) = slots
            return theta, (w - self.eta * self.lam * (w - theta),)

        cycle = Cycle((cohort.lr,) * self.inner_steps, (0,) * self.inner_steps, settle, looks_back=False)
        received = cohort.spread(message["row"])
        theta, w = cohort.train_in_cycles(received, cycle, pull=lambda theta, w: self.lam * (theta - w))
        cohort.keep("theta", theta)
        return Reply({"row": w})

    def aggregate(self, server: State, replies: Replies) -> State:
        return {**server, "row": (1 - self.beta) * server["row"] + self.beta * replies.mean("row")}

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return cohort.kept_rows("theta", cohort.spread(message["row"]))
