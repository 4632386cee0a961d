"""q-FFL: clients with a larger loss count for more, so that the model serves all of them more evenly.

The objective is ``sum_k p_k F_k^(q+1) / (q+1)``. With client k's loss F_k at the received model w, its trained model
w_k and the learning rate eta (1/eta estimates the Lipschitz constant L):

    g_k = (w - w_k) / eta,     h_k = q F_k^(q-1) |g_k|^2 + F_k^q / eta
    w <- w - sum_k p_k F_k^q g_k / sum_k p_k h_k

With q = 0 this is FedAvg; a larger q is fairer and slower. With one local step on all data it is the paper's q-FedSGD.

Li et al., Fair Resource Allocation in Federated Learning, ICLR 2020, https://arxiv.org/abs/1905.10497 (q-FedAvg). The
paper draws clients with probability p_k and sums without weights; here the run's weights are in the sums
(``weight_by = "uniform"`` is the paper's sum).

    fedloom run --method examples/methods/qffl.py:QFFL:q=1 --clients 20 --alpha 0.1
    fedloom conform examples/methods/qffl.py:QFFL:q=0 --like fedavg
"""

from dataclasses import dataclass

import fedloom as fl


@dataclass(frozen=True)
class QFFL(fl.FedAvg):
    """FedAvg with weights that grow with the clients' losses."""

    sends = {"change": fl.Update("F^q times its change"), "h": fl.Scalar("its share of the step's normalisation")}
    q: float = 1.0

    def __post_init__(self):
        if not self.q >= 0:
            raise fl.FedloomError(f"q={self.q}: the exponent of the losses must not be negative.")

    def client_update(self, cohort, message):
        row, eta = cohort.spread(message["row"]), cohort.lr
        loss = cohort.evaluate(row, "train").mean_loss.float().unsqueeze(1) + 1e-10
        g = (row - cohort.train(row)) / eta
        square = cohort.task.layout.mask_trained(g).square().sum(1, keepdim=True)
        return fl.Reply(
            {"change": -(loss**self.q) * g, "h": self.q * loss ** (self.q - 1) * square + loss**self.q / eta}
        )

    def aggregate(self, server, replies):
        return {**server, "row": server["row"] + replies.mean("change") / replies.mean("h")}
