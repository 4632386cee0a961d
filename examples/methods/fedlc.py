"""FedLC: each client lowers its logits by a margin that is larger for the classes that it has less of.

With n_c samples of class c at the client and logits f, a sample of class y has the loss

    -log softmax(f - margin)_y,     margin_c = tau * n_c^(-1/4)

so rare classes must win by more. With tau = 0 this is FedAvg. Only training is calibrated, not prediction.

Zhang et al., Federated Learning with Label Distribution Skew via Logits Calibration, ICML 2022,
https://arxiv.org/abs/2209.00189. A class that the client lacks counts as 1e-8 samples: its margin is 100 tau instead of
the formula's infinity, and leaves it out of the softmax just as well.

    fedloom run --method examples/methods/fedlc.py:FedLC:tau=1.0 --clients 20 --alpha 0.1
    fedloom conform examples/methods/fedlc.py:FedLC
"""

from dataclasses import dataclass

import fedloom as fl


@dataclass(frozen=True)
class FedLC(fl.FedAvg):
    """FedAvg with logits that are calibrated by each client's class counts."""

    tau: float = 1.0

    def __post_init__(self):
        if not self.tau >= 0:
            raise fl.FedloomError(f"tau={self.tau}: the scale of the margins must not be negative.")

    def check(self, task, work):
        if not task.classifies:
            raise fl.FedloomError("fedlc has a margin for each class, but this task has no class per sample.")

    def client_update(self, cohort, message):
        def loss(net, x, y, given):
            return cohort.task.objective.losses(net(x) - given["margins"], y)

        margins = self.tau * cohort.classes().clamp(min=1e-8) ** -0.25
        rows = cohort.train(cohort.spread(message["row"]), loss=loss, given={"margins": margins})
        return fl.Reply({"row": rows})
