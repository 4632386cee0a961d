"""Inverting gradients: images whose update points where the sent one does, and that are smooth.

``x' = argmin mean_l (1 - cos(change_l(x', y), change_l)) + tv * TV(x')`` over the tensors l of the model, by Adam on
the signs of the gradient, inside the range of pixels. Geiping, Bauermeister, Dröge and Moeller, Inverting Gradients:
How Easy Is It to Break Privacy in Federated Learning?, NeurIPS 2020, https://arxiv.org/abs/2003.14053. The paper has
one cosine of all tensors together; its code has this form too, and of small models, whose last layer outweighs the
first ones, it rebuilds what the other does not (48 dB and 9 dB of a digit).

``change`` repeats the client's local steps with the guess (their section 5.3, federated averaging). Which sample was in
which batch nobody but the client knows, so that guesses have an order of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedloom.attacks.reconstruction.dlg import Guess
from fedloom.attacks.reconstruction.gradients import LocalSteps, inputs_of, local_change
from fedloom.core.task import Task

DECAYS = (3 / 8, 5 / 8, 7 / 8)
"""After which shares of the iterations the step size is divided by 10, as in the authors' code."""


def mismatch(change: Tensor, sent: Tensor, sizes: Sequence[int]) -> Tensor:
    """One less the cosine of two updates, the mean over the tensors that they consist of.

    Args:
        change: What a guess would have sent.
        sent: What was sent.
        sizes: How many numbers each tensor has.
    """
    pairs = zip(torch.split(change, list(sizes)), torch.split(sent, list(sizes)), strict=True)
    return torch.stack([1 - torch.cosine_similarity(one, other, dim=0) for one, other in pairs]).mean()


def total_variation(images: Tensor) -> Tensor:
    """The mean difference between neighbouring pixels, which noise makes large.

    Args:
        images: n×channels×height×width.
    """
    down = (images[..., 1:, :] - images[..., :-1, :]).abs().mean()
    right = (images[..., 1:] - images[..., :-1]).abs().mean()
    return down + right


def invert_gradient(
    task: Task,
    row: Tensor,
    change: Tensor,
    labels: Tensor,
    steps: LocalSteps,
    *,
    low: float,
    high: float,
    smoothness: float = 1e-4,
    iterations: int = 500,
    step_size: float = 0.1,
    starts: int = 1,
    generator: torch.Generator,
) -> Guess:
    """Images whose update points where the sent one does: the best of some starts.

    Args:
        task: The task, whose model it is.
        row: The model that the client got.
        change: How the client changed the columns that train; the opposite of a gradient will do.
        labels: The classes of the images (``labels.py`` finds them).
        steps: The local training that the client did.
        low: The lowest value of a pixel, after the task's normalisation.
        high: The highest one.
        smoothness: How much smooth images are preferred; tv in the formula.
        iterations: Steps of Adam from each start.
        step_size: The first step size of Adam.
        starts: From how many starting points it is tried.
        generator: Draws the starting points.
    """
    shape = inputs_of(task, task.sample).shape[1:]
    found, sizes = list[Guess](), [slot.stop - slot.start for slot in task.layout.trainable]
    for _ in range(starts):
        inputs = torch.randn(len(labels), *shape, generator=generator).clamp_(low, high).requires_grad_()
        optimizer = torch.optim.Adam([inputs], lr=step_size)
        decay = torch.optim.lr_scheduler.MultiStepLR(optimizer, [int(share * iterations) for share in DECAYS])
        for _ in range(iterations):
            away = mismatch(local_change(task, row, inputs, labels, steps), change, sizes)
            (direction,) = torch.autograd.grad(away + smoothness * total_variation(inputs), [inputs])
            inputs.grad = direction.sign()
            optimizer.step()
            decay.step()
            with torch.no_grad():
                inputs.clamp_(low, high)
        away = mismatch(local_change(task, row, inputs, labels, steps), change, sizes)
        found.append(Guess(inputs.detach(), labels, float(away.detach())))
    return min(found, key=lambda guess: guess.mismatch)
