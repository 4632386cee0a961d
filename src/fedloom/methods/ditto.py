"""A model per client, tied to the others': by a graph of who is like whom, or by a shared model.

FedU (Dinh et al., 2021) adds a Laplacian term ``sum_kl a_kl ||w_k - w_l||^2`` and takes its step on the server; Ditto
(Li et al., ICML 2021) runs FedAvg and, beside it, holds a personal model near what FedAvg sends. With no ties both are
local training. FedU's factors (half the learning rate, the number of local steps, ...) only ever appear as one product,
which is called ``strength`` here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, Reply
from fedloom.core.pull import Affine
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class Ditto(FedAvg):
    """FedAvg, and beside it a personal model ``v`` per client that minimises ``F_k(v) + lam/2 * ||v - w||^2``.

    Li, Hu, Beirami and Smith, Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021. v stays
    with its client, which predicts with it; it begins as the first w that the client receives. Each round it is trained
    for ``personal_epochs`` (left out: as long as w is). The shared model is FedAvg's to the byte.
    """

    has_personal_models: ClassVar[bool] = True

    lam: float = 0.1
    personal_epochs: int | None = None

    def __post_init__(self) -> None:
        if not self.lam >= 0:
            raise FedloomError(f"lam={self.lam}: the pull towards the shared model must not be negative.")
        if self.personal_epochs is not None and self.personal_epochs < 1:
            raise FedloomError(f"personal_epochs={self.personal_epochs}: train the personal model at least once.")

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        received, work = cohort.spread(message["row"]), cohort.setting.work
        shared = super().client_update(cohort, message)
        if self.personal_epochs is not None:
            work = replace(work, epochs=self.personal_epochs, steps=None)
        towards = Affine(lambda v, _, w: self.lam * (v - w))
        v = cohort.train(self.weights_for(message, cohort), work=work, pull=Affine(towards), given={"w": received})
        cohort.keep("v", v)
        return shared

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return cohort.kept_rows("v", cohort.spread(message["row"]))
