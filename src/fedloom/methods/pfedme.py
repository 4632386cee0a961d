"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.cycle import Cycle, Slots
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.perfedavg import _plain_steps


@dataclass(frozen=True)
class PFedMe(FedAvg):
    """Clients' own models theta, held near a shared w, which follows them: FedAvg on Moreau envelopes.

    Dinh, Tran and Nguyen, Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020. On each batch,
    ``inner_steps`` of ``theta - lr * (gradient + lam * (theta - w))``, then ``w - eta * lam * (w - theta)``. The client
    keeps theta, predicts with it, and sends w; the server takes ``(1 - beta) * w + beta * mean``. As in the authors'
    code theta begins each round at the received w; only selected clients work (there, all of them do). A client that
    never trained predicts with w. The paper's lam = 15 and eta = 0.005 want hundreds of rounds of 20 batches; our
    defaults learn in tens.
    """

    has_personal_models: ClassVar[bool] = True

    lam: float = 1.0
    inner_steps: int = 5
    eta: float = 0.5
    beta: float = 1.0

    def __post_init__(self) -> None:
        for name, value in {"lam": self.lam, "eta": self.eta, "beta": self.beta}.items():
            if not value > 0:
                raise FedloomError(f"{name}={value}: it must be a positive number.")
        if self.inner_steps < 1:
            raise FedloomError(f"inner_steps={self.inner_steps}: a personal model needs at least one step per batch.")
        if self.eta * self.lam > 1:
            raise FedloomError(
                f"eta={self.eta:g} with lam={self.lam:g}: their product is the share of the way from w to theta, and "
                "must not exceed 1."
            )

    @property
    def compiles(self) -> bool:
        return False

    def check(self, task: Task, work: LocalWork) -> None:
        _plain_steps("pfedme", work)
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
