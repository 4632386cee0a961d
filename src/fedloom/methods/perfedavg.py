"""Shared models that are a good place to start from, rather than good models.

Per-FedAvg (Fallah et al., NeurIPS 2020) minimises what clients lose *after* one gradient step of their own; pFedMe
(Dinh et al., NeurIPS 2020) minimises Moreau envelopes, whose minimisers are the clients' own models. A local step of
either is a cycle of gradients on one batch. Per-FedAvg's D, D' and D'' are dealt from each batch, where the paper draws
them independently; a batch with fewer samples than that is used whole each time. Both papers weight clients alike
(``weight_by = "uniform"``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.cycle import Cycle, Slots
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class PerFedAvg(FedAvg):
    """FedAvg on ``F_k(w - alpha * grad F_k(w))``: the model that is best once each client has taken one more step.

    Fallah, Mokhtari and Ozdaglar, Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic
    Meta-Learning Approach, NeurIPS 2020. With ``u = w - alpha * g(w; D)``, ``order = "first"`` steps
    ``w - lr * g(u; D')`` and leaves the Hessian out; ``"hessian-free"`` steps ``w - lr * (g - alpha * d)`` with
    ``g = g(u; D')`` and ``d = (g(w + delta g; D'') - g(w - delta g; D'')) / (2 delta)``. A client, new ones included,
    predicts after a step of size alpha on all of its training data.
    """

    alpha: float = 0.01
    order: Literal["first", "hessian-free"] = "first"
    delta: float = 0.001

    def __post_init__(self) -> None:
        if not self.alpha >= 0:
            raise FedloomError(f"alpha={self.alpha}: the size of a client's own step must not be negative.")
        if self.order not in ("first", "hessian-free"):
            raise FedloomError(f"order='{self.order}': use 'first' or 'hessian-free'.")
        if not self.delta > 0:
            raise FedloomError(
                f"delta={self.delta}: the distance of the two gradients of a difference must be positive."
            )

    @property
    def compiles(self) -> bool:
        return False

    def check(self, task: Task, work: LocalWork) -> None:
        _plain_steps("perfedavg", work)

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        cycle = self._first(cohort.lr) if self.order == "first" else self._hessian_free(cohort.lr)
        return Reply({"row": cohort.train_in_cycles(cohort.spread(message["row"]), cycle)[0]})

    def _first(self, lr: float) -> Cycle:
        def settle(step: int, before: Tensor, after: Tensor, slots: Slots) -> tuple[Tensor, Slots]:
            if step == 0:
                return after, (before,)
            (w,) = slots
            return w + (after - before), slots

        return Cycle((self.alpha, lr), (0, 1), settle)

    def _hessian_free(self, lr: float) -> Cycle:
        def settle(step: int, before: Tensor, after: Tensor, slots: Slots) -> tuple[Tensor, Slots]:
            if step == 0:
                return after, (before, *slots[1:])
            w, g, plus = slots
            gradient = before - after  # of a step of size one
            if step == 1:
                return w + self.delta * gradient, (w, gradient, plus)
            if step == 2:
                return w - self.delta * g, (w, g, gradient)
            d = (plus - gradient) / (2 * self.delta)
            return w - lr * (g - self.alpha * d), slots

        return Cycle((self.alpha, 1.0, 1.0, 1.0), (0, 1, 2, 2), settle, slots=3)

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        row = message["row"]
        return row if self.alpha == 0 else row - self.alpha * cohort.gradient(cohort.spread(row))


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

    personal: ClassVar[bool] = True

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
        return cohort.kept("theta", cohort.spread(message["row"]))


def _plain_steps(name: str, work: LocalWork) -> None:
    if work.optimizer != "sgd" or work.momentum:
        raise FedloomError(
            f"{name}'s local step is made of plain gradient steps: use local.optimizer = sgd, momentum 0."
        )
