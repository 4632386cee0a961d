"""Per-FedAvg: the shared model that is best after each client has taken one gradient step of its own.

FedAvg on ``F_k(w - alpha * grad F_k(w))``. With ``u = w - alpha * g(w; D)``:

- ``order = "first"``: ``w <- w - lr * g(u; D')``, which leaves the Hessian out
- ``order = "hessian-free"``: ``w <- w - lr * (g - alpha * d)`` with ``g = g(u; D')`` and
  ``d = (g(w + delta g; D'') - g(w - delta g; D'')) / (2 delta)``

A client, new ones included, predicts after a step of size alpha on all of its training data.

Fallah, Mokhtari and Ozdaglar, Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic
Meta-Learning Approach, NeurIPS 2020, https://arxiv.org/abs/2002.07948. D, D' and D'' are disjoint parts of each batch,
where the paper draws them independently; a batch with fewer samples than parts is used whole each time. The paper
weights clients alike (``weight_by = "uniform"``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.cycle import Cycle, Slots
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply
from fedloom.core.settings import NonNegative, Positive
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.requirements import require_plain_sgd


@dataclass(frozen=True)
class PerFedAvg(FedAvg):
    """FedAvg on ``F_k(w - alpha * grad F_k(w))``: the model that is best after one more step of each client.

    Args:
        alpha: Size of the client's own step.
        order: ``"first"`` leaves the Hessian out; ``"hessian-free"`` estimates its product from gradients.
        delta: Distance of the two gradients of that estimate.
    """

    breaks: ClassVar[Facts] = {Fact.ONE_STEP: "takes several steps per batch"}

    alpha: NonNegative = 0.01
    order: Literal["first", "hessian-free"] = "first"
    delta: Positive = 0.001

    def check(self, task: Task, work: LocalWork) -> None:
        require_plain_sgd("perfedavg's local step", work)

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
