"""FedDecorr: clients keep the features of their models from collapsing into a few dimensions.

Added to the loss of each batch, with K the correlation matrix of its features (d of them, the inputs of the head):

    beta / d^2 * |K|_F^2

With beta = 0 this is FedAvg. It is a loss of the whole batch: padding of batches of unequal size is left out of K.

Shi et al., Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous Federated Learning, ICLR 2023,
https://arxiv.org/abs/2210.00226. This is the paper's formula. The authors' code leaves out the diagonal, which is
constant, and has another scale: it is N d / (d - 1) times as large for a batch of N samples.

    fedloom run --method examples/methods/feddecorr.py:FedDecorr:beta=0.1 --clients 20 --alpha 0.1
    fedloom conform examples/methods/feddecorr.py:FedDecorr
"""

from dataclasses import dataclass

import fedloom as fl


@dataclass(frozen=True)
class FedDecorr(fl.FedAvg):
    """FedAvg with a penalty on the correlation of features."""

    beta: float = 0.1

    def __post_init__(self):
        if not self.beta >= 0:
            raise fl.FedloomError(f"beta={self.beta}: the weight of the penalty must not be negative.")

    def client_update(self, cohort, message):
        def loss(net, x, y, _):
            values, counts = cohort.task.objective.losses(net(x), y)
            penalty = correlation(net.at({}).features(x).flatten(1), net.mask).square().mean()
            return values + self.beta * counts * penalty, counts

        return fl.Reply({"row": cohort.train(cohort.spread(message["row"]), loss=loss)})


def correlation(z, mask):
    """The correlation matrix of the features of those samples that are no padding."""
    share = (mask / mask.sum()).unsqueeze(1)
    z = z - (share * z).sum(0)
    z = z / ((share * z.square()).sum(0) + 1e-8).sqrt()
    return z.T @ (share * z)
