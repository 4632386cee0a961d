"""FedAvg, and the same with a proximal term or a server optimiser.

McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017; Li et al.,
Federated Optimization in Heterogeneous Networks, MLSys 2020; Hsu et al., 2019 (FedAvgM); Reddi et al., Adaptive
Federated Optimization, ICLR 2021. Weights are normalised over the selected clients.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.message import Message, Reply
from fedloom.core.pull import Pull


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Clients train the shared model on their own data; the server takes the weighted mean of their models.

    McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017.
    """

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        """Local training from the received model."""
        return Reply({"row": cohort.train(cohort.spread(message["row"]), pull=self.pull(message))})

    def pull(self, message: Message) -> Pull | None:
        """What a variant adds to the gradient rows; FedAvg adds nothing."""
        return None
