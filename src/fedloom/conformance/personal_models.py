"""Claims about personal models, chains and clusters; the expected results are solved for on quadratics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedloom.conformance.claim import ROUNDS, WORK, Claim, settle
from fedloom.conformance.quadratics import LR, AffineMap, Matrix, Quadratics, mixture, relative
from fedloom.conformance.run_method import run_method
from fedloom.conformance.shared_models import FEDAVG, PROBLEM
from fedloom.core.algorithm import Algorithm
from fedloom.core.local_work import LocalWork
from fedloom.methods.cfl import CFL
from fedloom.methods.ditto import Ditto
from fedloom.methods.fedseq.fedseq import FedSeq
from fedloom.methods.fedseq.fedseqinter import FedSeqInter
from fedloom.methods.fedu import FedU
from fedloom.methods.fesem import FeSEM
from fedloom.methods.ifca import IFCA
from fedloom.methods.perfedavg import PerFedAvg
from fedloom.methods.pfedme import PFedMe
from fedloom.prediction.fedpredict import FedPredict
from fedloom.prediction.finetune import FineTune

LINE = Quadratics.random(width=1, copies=(4, 4, 8, 4, 8))
"""One-dimensional clients with identical samples, so that every part of a batch has the same gradient."""


def to_own_descent(method: Algorithm) -> float:
    """Local training: ten rounds of each client's own gradient descent."""
    wanted = np.stack([one.times(10)(np.zeros(3)) for one in PROBLEM.local()])
    return relative(settle(method, PROBLEM, 10).prediction_rows(), wanted)


def to_ditto(method: Algorithm) -> float:
    """Ditto's personal models: ``(A_k + lam)^-1 (A_k m_k + lam w)`` around FedAvg's fixed point w."""
    lam = method.lam if isinstance(method, Ditto) else 0.1
    w, eye = PROBLEM.fedavg().fixed_point, np.eye(3)
    pairs = zip(PROBLEM.curvatures, PROBLEM.optima, strict=True)
    wanted = np.stack([np.linalg.solve(a + lam * eye, a @ m + lam * w) for a, m in pairs])
    return relative(settle(method, PROBLEM).prediction_rows(), wanted)


def to_fedu(method: Algorithm) -> float:
    """FedU with strength s and all clients related: the fixed point of ``(I - s L) descent``, all clients at once."""
    if not isinstance(method, FedU):
        return float("nan")
    strength, clients, maps = 0.05, PROBLEM.clients, PROBLEM.local()
    laplacian = clients * np.eye(clients) - np.ones((clients, clients))
    mix = np.kron(np.eye(clients) - strength * laplacian, np.eye(3))
    whole = np.zeros((3 * clients, 3 * clients))
    for k, one in enumerate(maps):
        whole[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = one.matrix
    wanted = AffineMap(mix @ whole, mix @ np.concatenate([one.offset for one in maps])).fixed_point
    return relative(settle(replace(method, strength=strength, relations="full"), PROBLEM).prediction_rows(), wanted)


def to_pfedme(method: Algorithm) -> float:
    """pFedMe, a whole batch per round: w moves a share ``eta * lam`` towards theta, which is K proximal steps away."""
    if not isinstance(method, PFedMe):
        return float("nan")
    move, eye = method.eta * method.lam, np.eye(3)
    inner = [PROBLEM.proximal(k, method.lam, method.inner_steps) for k in range(PROBLEM.clients)]
    rounds = [AffineMap((1 - move) * eye + move * one.matrix, move * one.offset) for one in inner]
    w = mixture(PROBLEM.weights, rounds).fixed_point
    run = run_method(PROBLEM.task(), method, 4 * ROUNDS, {**WORK, "steps": 1})
    wanted = np.stack([one(w) for one in inner])
    return max(relative(run.row, w), relative(run.prediction_rows(), wanted))


def to_meta(method: Algorithm) -> float:
    """Per-FedAvg's fixed point: curvature ``a (1 - alpha a)``; with the Hessian the factor is squared."""
    if not isinstance(method, PerFedAvg):
        return float("nan")
    alpha, worst = 0.1, 0.0
    for order, power in (("first", 1), ("hessian-free", 2)):
        curvatures = LINE.curvatures * (1 - alpha * LINE.curvatures) ** power
        meta = Quadratics(curvatures, LINE.optima, LINE.copies)
        wanted = meta.fedavg().fixed_point
        run = run_method(LINE.task(), replace(method, alpha=alpha, order=order), ROUNDS, WORK)  # type: ignore[arg-type]
        own = np.stack([LINE.descent(k, alpha)(wanted) for k in range(LINE.clients)])
        worst = max(worst, relative(run.row, wanted), relative(run.prediction_rows(), own))
    return worst


def to_chain(method: Algorithm) -> float:
    """FedSeq with all clients in one fixed chain: the composition of the clients' maps."""
    if not isinstance(method, FedSeq):
        return float("nan")
    everyone = [list(range(PROBLEM.clients))]
    chain = replace(method, chains=everyone, reshuffle=False, inner="fedavg")
    whole = PROBLEM.local()[0]
    for one in PROBLEM.local()[1:]:
        whole = whole.then(one)
    return relative(settle(chain, PROBLEM, 3).row, whole.times(3)(np.zeros(3)))


def to_chains(method: Algorithm) -> float:
    """FedSeq with two fixed chains: the fixed point of the weighted mean of two composed maps."""
    if not isinstance(method, FedSeq):
        return float("nan")
    maps, sizes = PROBLEM.local(), PROBLEM.weights
    pair, rest = maps[0].then(maps[1]), maps[2].then(maps[3]).then(maps[4])
    wanted = mixture(np.asarray([sizes[:2].sum(), sizes[2:].sum()]), [pair, rest]).fixed_point
    chains = replace(method, chains=[[0, 1], [2, 3, 4]], reshuffle=False, inner="fedavg")
    if isinstance(chains, FedSeqInter):
        chains = replace(chains, period=1)
    return relative(settle(chains, PROBLEM).row, wanted)


def to_two_clusters(method: Algorithm) -> float:
    """IFCA and FeSEM with two far-apart groups: each group must reach the fixed point of its own FedAvg."""
    if not isinstance(method, IFCA | FeSEM):
        return float("nan")
    left, right = (Quadratics.random(clients=3, seed=seed) for seed in (1, 2))
    both = Quadratics(
        np.concatenate([left.curvatures, right.curvatures]),
        np.concatenate([left.optima + 20, right.optima - 20]),
        left.copies + right.copies,
    )
    sides = (slice(0, 3), slice(3, 6))
    wanted: list[Matrix] = []
    for side in sides:
        half = Quadratics(both.curvatures[side], both.optima[side], both.copies[side])
        wanted += [half.fedavg().fixed_point] * 3
    return relative(settle(replace(method, clusters=2), both).prediction_rows(), np.stack(wanted))


def to_convex_mix(method: Algorithm) -> float:
    """FedPredict after a method: ``g * global + (1 - g) * own`` with ``g = exp(-1/nt - t/T)``, per client."""
    run = run_method(PROBLEM.task(), method, 7, WORK, selection={"number": 2}, prediction=[FedPredict()])
    last = [max((r["round"] for r in run.records if k in r["selected"]), default=0) for k in range(PROBLEM.clients)]
    kept = run.state.client_states.rows["fedpredict/row"]
    wanted = []
    for client, trained in enumerate(last):
        age = 7 - trained
        weight = 1.0 if trained == 0 else 0.0 if age == 0 else np.exp(-1 / age - 1.0)
        wanted.append((weight * run.row + (1 - weight) * kept[client]).double().numpy())
    return relative(run.prediction_rows(), np.stack(wanted))


def to_finetune(method: Algorithm) -> float:
    """Fine-tuning after a method: one gradient step from the shared model (an epoch is one whole batch)."""
    run = settle(method, PROBLEM, 5)
    shared = run.row.double().numpy()
    wanted = np.stack([PROBLEM.descent(k)(shared) for k in range(PROBLEM.clients)])
    tuned = replace(run.run, setting=replace(run.run.setting, work=LocalWork(lr=LR, batch_size=0)))
    return relative(replace(run, run=tuned).prediction_rows([FineTune(epochs=1)]), wanted)


def to_one_cluster(method: Algorithm) -> float:
    """CFL without a split: FedAvg's fixed point for every client."""
    if not isinstance(method, CFL):
        return float("nan")
    run = settle(replace(method, warmup=ROUNDS), PROBLEM)
    return relative(run.prediction_rows(), np.stack([PROBLEM.fedavg().fixed_point] * PROBLEM.clients))


PERSONAL: dict[str, tuple[Claim, ...]] = {
    "local": (Claim("is every client's own gradient descent", to_own_descent),),
    "fedavg": (
        Claim("with FedPredict predicts with the convex mix of the formula", to_convex_mix),
        Claim("with fine-tuning predicts one epoch of gradient steps from the shared model", to_finetune),
    ),
    "perfedavg": (Claim("stops where the meta-gradient vanishes on average, first-order and Hessian-free", to_meta),),
    "pfedme": (Claim("stops at the fixed point of its Moreau envelopes, w and theta", to_pfedme),),
    "fedu": (Claim("stops at the fixed point of descent and Laplacian mixing", to_fedu),),
    "ditto": (FEDAVG, Claim("has the personal models (A + lam)^-1 (A m + lam w)", to_ditto)),
    "cfl": (Claim("before any split stops at FedAvg's fixed point", to_one_cluster),),
    "fesem": (Claim("gives two far groups their own FedAvg fixed points", to_two_clusters),),
    "ifca": (Claim("gives two far groups their own FedAvg fixed points", to_two_clusters),),
    "fedseq": (
        Claim("with one chain is the clients' maps, composed", to_chain),
        Claim("with two chains stops at the fixed point of their mean", to_chains),
    ),
    "fedseqinter": (Claim("with a period of 1 stops where FedSeq does", to_chains),),
}
