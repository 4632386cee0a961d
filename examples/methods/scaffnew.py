"""Scaffnew (ProxSkip for federated learning): local steps that are corrected, and averaged only now and then.

With client i's control variate h_i, the step size eta, and a coin that all clients share:

- every step: ``x_i <- x_i - eta * (gradient_i - h_i)``
- with probability p, after a step: x is the mean of the x_i, ``h_i <- h_i + p / eta * (x - x_i)``, and all x_i become x

The variates sum to zero (weighted like the mean), and x converges to the optimum, not beside it as in FedAvg.

Mishchenko et al., ProxSkip: Yes! Local Gradient Steps Provably Lead to Communication Acceleration! Finally!, ICML 2022,
https://arxiv.org/abs/2202.09357. A round is the steps until the coin says to communicate: their number is geometric
with mean 1/p, and replaces the run's epochs. All clients take part in every round, as in the paper, and eta stays
constant.

    fedloom run --method examples/methods/scaffnew.py:Scaffnew:p=0.1 --clients 20 --alpha 0.1
    fedloom conform examples/methods/scaffnew.py:Scaffnew
"""

from dataclasses import dataclass, replace

import torch

import fedloom as fl


@dataclass(frozen=True)
class Scaffnew(fl.FedAvg):
    """Local gradient steps with control variates, and communication with probability p after each of them."""

    keeps = {"h": "its control variate", "x": "its model before the last mean"}
    p: float = 0.1

    def __post_init__(self):
        if not 0 < self.p < 1:
            raise fl.FedloomError(f"p={self.p}: the probability of communication must be between 0 and 1.")

    def client_update(self, cohort, message):
        x = cohort.spread(message["row"])
        h = cohort.kept_rows("h", 0 * x) + self.p / cohort.lr * (x - cohort.kept_rows("x", x))
        steps = torch.zeros(()).geometric_(self.p, generator=cohort.shared_generator("coin"))
        work = replace(cohort.setting.work, steps=int(steps))
        rows = cohort.train(x, work=work, pull=fl.Affine(lambda *_, h: -h), given={"h": h})
        cohort.keep("h", h)
        cohort.keep("x", rows)
        return fl.Reply({"row": rows})
