"""FedNova: the server averages directions, not models, so that a client with more local steps does not count for more.

With client i's local steps t_i, and d_i its change of the model divided by ``|a_i|_1``:

    w <- w + t_eff * sum_i p_i d_i,     t_eff = sum_i p_i |a_i|_1

``a_i`` are the weights of its gradients in that change. For plain SGD ``|a_i|_1 = t_i``; with momentum rho it is
``(t_i - rho (1 - rho^t_i) / (1 - rho)) / (1 - rho)``. With equal steps this is FedAvg.

Wang et al., Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization, NeurIPS 2020,
https://arxiv.org/abs/2007.07481. As in the paper, the objective is the right one for small learning rates; drift inside
of many large local steps remains. Without the server's momentum, which the run adds (``server_optimizer``).

    fedloom run --method examples/methods/fednova.py:FedNova --clients 20 --alpha 0.1
    fedloom conform examples/methods/fednova.py:FedNova --like fedavg
"""

from dataclasses import dataclass

import fedloom as fl


@dataclass(frozen=True)
class FedNova(fl.FedAvg):
    """FedAvg whose server averages the clients' changes per local step."""

    sends = {"direction": fl.Update("the change of its model per step"), "norm": fl.Scalar("its steps")}

    def check(self, task, work):
        if work.optimizer != "sgd" or work.nesterov or work.changes_within_round:
            raise fl.FedloomError(
                "fednova's norm is for SGD, with or without momentum, at one learning rate per round: set "
                "local.optimizer = sgd, and no local.round_schedule."
            )

    def client_update(self, cohort, message):
        row, rho = cohort.spread(message["row"]), cohort.setting.work.momentum
        change = cohort.train(row) - row
        steps = cohort.steps.clamp(min=1).float().unsqueeze(1)
        norm = (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
        return fl.Reply({"direction": change / norm, "norm": norm})

    def aggregate(self, server, replies):
        return {**server, "row": server["row"] + replies.mean("norm") * replies.mean("direction")}
