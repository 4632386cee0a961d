"""DLG and iDLG: samples whose gradient is the one that was sent.

``x', y' = argmin || grad(x', softmax(y')) - gradient ||²`` by L-BFGS from noise. Zhu, Liu and Han, Deep Leakage from
Gradients, NeurIPS 2019, https://arxiv.org/abs/1906.08935. With ``labels`` only x' is sought: iDLG takes the label from
the gradient first (``labels.py``). Zhao, Mopuri and Bilen, 2020, https://arxiv.org/abs/2001.02610.

The model must be twice differentiable to be of use (sigmoid and not ReLU). We divide by ``|| gradient ||²``, compute in
double precision and search along each direction (strong Wolfe), where the published code takes steps of 1 in single
precision: it fails from many starting points from which this does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.attacks.reconstruction.gradients import gradient, inputs_of
from fedloom.core.task import Task


@dataclass(frozen=True)
class Guess:
    """Samples that an attacker believes in.

    Args:
        inputs: Prepared inputs.
        labels: Their classes.
        mismatch: How far what they would have sent is from what was sent: 0 for no difference.
    """

    inputs: Tensor
    labels: Tensor
    mismatch: float


def deep_leakage(
    task: Task,
    row: Tensor,
    sent: Tensor,
    *,
    labels: Tensor | None = None,
    samples: int = 1,
    iterations: int = 300,
    starts: int = 1,
    generator: torch.Generator,
) -> Guess:
    """Samples whose gradient is what was sent: the best of some starts.

    Args:
        task: The task, whose model it is.
        row: The model that the client got.
        sent: The gradient, in the columns that train.
        labels: Their classes, if they are known (iDLG); sought too otherwise (DLG).
        samples: How many samples are sought, where labels do not say it.
        iterations: Steps of L-BFGS from each start.
        starts: From how many starting points it is tried.
        generator: Draws the starting points.
    """
    found = [_search(task, row, sent, labels, samples, iterations, generator) for _ in range(starts)]
    return min(found, key=lambda guess: guess.mismatch)


def _search(
    task: Task,
    row: Tensor,
    sent: Tensor,
    labels: Tensor | None,
    samples: int,
    iterations: int,
    generator: torch.Generator,
) -> Guess:
    shape = inputs_of(task, task.sample).shape[1:]
    samples = samples if labels is None else len(labels)
    inputs = torch.randn(samples, *shape, generator=generator, dtype=torch.float64).requires_grad_()
    scores = torch.randn(samples, task.federation.classes, generator=generator, dtype=torch.float64).requires_grad_()
    sought = [inputs, scores] if labels is None else [inputs]
    target, exact = sent.double(), row.double()

    def mismatch() -> Tensor:
        guessed = scores.softmax(1) if labels is None else labels
        away = gradient(task, exact, inputs, guessed, keep_graph=True) - target
        return away.square().sum() / target.square().sum()

    def closure() -> float:
        optimizer.zero_grad()
        loss = mismatch()
        loss.backward(inputs=sought)  # type: ignore[no-untyped-call]
        return float(loss.detach())

    optimizer = torch.optim.LBFGS(
        sought,
        max_iter=iterations,
        history_size=100,
        tolerance_grad=1e-10,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )
    optimizer.step(closure)  # type: ignore[no-untyped-call]
    left = float(mismatch().detach())
    found = inputs.detach().nan_to_num().float()
    return Guess(found, scores.detach().argmax(1) if labels is None else labels, left if left == left else float("inf"))
