"""Claims about methods with one shared model: the point that they must reach on quadratics.

FedAvg with several local steps has a biased fixed point (Charles and Konecny, 2021), and FedProx has another one. Drift
control removes the bias: SCAFFOLD and FedDyn must reach the optimum, with all clients and with a few per round.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from fedloom.conformance.claim import FEW, ROUNDS, WORK, Claim, settle
from fedloom.conformance.quadratics import STEPS, Quadratics, relative
from fedloom.conformance.run_method import run_method
from fedloom.core.algorithm import Algorithm
from fedloom.methods.fedadagrad import FedAdagrad
from fedloom.methods.fedadam import FedAdam
from fedloom.methods.fedprox import FedProx
from fedloom.methods.fedproxexit import FedProxExit

PROBLEM = Quadratics.random()
ALONE = Quadratics.random(clients=1)


def to_fedavg(method: Algorithm) -> float:
    """The distance to FedAvg's biased fixed point."""
    return relative(settle(method, PROBLEM, 6 * ROUNDS if method.server else ROUNDS).row, PROBLEM.fedavg().fixed_point)


def to_optimum(method: Algorithm) -> float:
    """The distance to the optimum if all clients take part."""
    return relative(settle(method, PROBLEM, 3 * ROUNDS).row, PROBLEM.optimum)


def to_optimum_with_few(method: Algorithm) -> float:
    """The distance to the optimum if two clients of five take part."""
    return relative(settle(method, PROBLEM, 6 * ROUNDS, selection=FEW).row, PROBLEM.optimum)


def to_descent(method: Algorithm) -> float:
    """The distance of one client's run from plain gradient descent, after ten rounds."""
    wanted = ALONE.descent(0).times(10 * STEPS)(np.zeros(3))
    return relative(settle(method, ALONE, 10).row, wanted)


def to_proximal(method: Algorithm) -> float:
    """The distance of FedProx (with mu = 1) from its own fixed point."""
    mu = method.mu if isinstance(method, FedProx | FedProxExit) and method.mu > 0.1 else 1.0
    near = replace(method, mu=mu) if isinstance(method, FedProx | FedProxExit) else method
    return relative(settle(near, PROBLEM).row, PROBLEM.fedprox(mu).fixed_point)


def to_descent_on_all_data(method: Algorithm) -> float:
    """The distance of centralised training from gradient descent on the mean loss, after ten rounds."""
    whole = np.einsum("k,kij->ij", PROBLEM.weights, PROBLEM.curvatures)
    pooled = Quadratics(whole[None], PROBLEM.optimum[None], (1,))
    return relative(settle(method, PROBLEM, 10).row, pooled.descent(0).times(10 * STEPS)(np.zeros(3)))


def to_one_step(method: Algorithm) -> float:
    """The distance of FedSGD from gradient descent on the mean loss: one step per round, ten rounds."""
    whole = np.einsum("k,kij->ij", PROBLEM.weights, PROBLEM.curvatures)
    pooled = Quadratics(whole[None], PROBLEM.optimum[None], (1,))
    return relative(settle(method, PROBLEM, 10).row, pooled.descent(0).times(10)(np.zeros(3)))


def to_server_rule(method: Algorithm) -> float:
    """The distance from two rounds of Algorithm 2 of Reddi et al. (2021), computed in double precision."""
    if not isinstance(method, FedAdam | FedAdagrad):
        return float("nan")
    row, m, v = np.zeros(3), np.zeros(3), np.full(3, method.tau**2)
    beta1, beta2 = (method.beta1, method.beta2) if isinstance(method, FedAdam) else (0.0, 0.0)
    for _ in range(2):
        change = PROBLEM.fedavg()(row) - row
        m = beta1 * m + (1 - beta1) * change
        if isinstance(method, FedAdagrad):
            v = v + change**2
        elif type(method).__name__ == "FedYogi":
            v = v - (1 - beta2) * change**2 * np.sign(v - change**2)
        else:
            v = beta2 * v + (1 - beta2) * change**2
        row = row + method.server_lr * m / (np.sqrt(v) + method.tau)
    return relative(settle(method, PROBLEM, 2).row, row)


def mean_control(method: Algorithm) -> float:
    """The largest distance of SCAFFOLD's server variate from the mean of the clients', over ten partial rounds."""
    return _distance_from_mean(method, "c", "c")


def mean_regulariser(method: Algorithm) -> float:
    """The largest distance of FedDyn's h from the mean of the clients' linear terms, over ten partial rounds."""
    return _distance_from_mean(method, "g", "h")


def _distance_from_mean(method: Algorithm, client_key: str, server_key: str) -> float:
    run, worst = run_method(PROBLEM.task(), method, 1, WORK, selection=FEW), 0.0
    shares = torch.from_numpy(PROBLEM.weights).float()
    for _ in range(10):
        rows = run.state.client_states.rows[client_key]
        here = run.state.server[server_key]
        worst = max(worst, float((shares @ rows - here).norm() / here.norm()))
        run = run.continue_for(1)
    return worst


FEDAVG = Claim("stops at FedAvg's biased fixed point, not at the optimum", to_fedavg)
PROXIMAL = Claim("stops at its own fixed point, which is neither FedAvg's nor the optimum", to_proximal)
DESCENT = Claim("with one client is gradient descent", to_descent)
OPTIMUM = Claim("reaches the global optimum with all clients taking part", to_optimum)
OPTIMUM_FEW = Claim("reaches the global optimum with two of five clients per round", to_optimum_with_few)

SHARED: dict[str, tuple[Claim, ...]] = {
    "centralised": (Claim("is gradient descent on the mean of all losses", to_descent_on_all_data),),
    "fedsgd": (Claim("is gradient descent on the mean of all losses, a step per round", to_one_step),),
    "fedavg": (FEDAVG, DESCENT),
    "heterofl": (FEDAVG, DESCENT),
    "fjord": (FEDAVG, DESCENT),
    "fedprox": (PROXIMAL,),
    "fedavgexit": (FEDAVG, DESCENT),
    "fedproxexit": (PROXIMAL,),
    "fedavgm": (FEDAVG,),
    "fedadagrad": (Claim("takes the first two steps of its paper's Algorithm 2", to_server_rule),),
    "fedadam": (Claim("takes the first two steps of its paper's Algorithm 2", to_server_rule),),
    "fedyogi": (Claim("takes the first two steps of its paper's Algorithm 2", to_server_rule),),
    "scaffold": (OPTIMUM, OPTIMUM_FEW, DESCENT, Claim("keeps c at the mean of all c_i", mean_control)),
    "feddyn": (OPTIMUM, OPTIMUM_FEW, Claim("keeps h at the mean of all g_i", mean_regulariser)),
}
