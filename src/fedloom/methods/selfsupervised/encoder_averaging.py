"""FedAvg of encoders: clients train the model's body and what was added to it, without labels.

The base of FedSimCLR, FedSimSiam and FedCA. The model's head is not trained and does not travel: fit it behind the
encoder with the prediction stage ``linearprobe``, or start another run from this one (``start_from``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Model
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message, Reply
from fedloom.core.network import Loss
from fedloom.methods.selfsupervised.two_views import TwoViews


@dataclass(frozen=True)
class EncoderAveraging(TwoViews):
    """Clients train encoders by a loss on two views of each image; the server takes their weighted mean."""

    breaks: ClassVar[Facts] = {
        Fact.WHOLE_MODEL: "shares a part of the model only",
        Fact.TRAINS_HEAD: "does not train the head",
    }
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_MEANS,)
    receives: ClassVar[Declared] = {"encoder": Model("the model's body and what the method added to it")}
    sends: ClassVar[Declared] = {"encoder": Model("the body and the added modules that the site trained")}

    @property
    def local_loss(self) -> Loss:
        """What clients minimise; its inputs are two views of each image."""
        raise TypeError(f"{type(self).__name__} has no local_loss")

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        rows = cohort.train(
            self.weights_for(message, cohort), loss=self.local_loss, augment=self.augmentation.two_views
        )
        return Reply({"encoder": rows[:, self.columns(cohort.task)]})
