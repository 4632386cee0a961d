"""What an attack rebuilt, beside what it sought: for a page, and for the numbers of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.attacks.measures.likeness import psnr, ssim
from fedloom.attacks.measures.pairing import best_assignment
from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.core.task import Task

RECOGNISED = 20.0
"""A rebuilt sample counts from this PSNR on, in dB."""
LOOKED_AT = 1000
"""Of how many samples the range of values is taken."""


@dataclass(frozen=True)
class Rebuilt:
    """Samples beside what an attack made of them, in the same order.

    Args:
        clients: Whose samples they are: one client's, or of all clients of a sum.
        originals: The samples that were sought.
        rebuilt: The best guess for each, every guess used once; NaN where there was none.
        psnr: The PSNR of each in dB; NaN where there was no guess.
        ssim: The SSIM of each; NaN also where samples are no images.
        of: How many training samples these clients have.
        labels: The share of their labels that was found; None where an attack seeks none.
    """

    clients: tuple[int, ...]
    originals: Tensor
    rebuilt: Tensor
    psnr: Tensor
    ssim: Tensor
    of: int
    labels: float | None = None

    @property
    def of_sum(self) -> bool:
        """Whether it was read from a sum, so that nobody can say whose sample it is."""
        return len(self.clients) > 1

    @property
    def recognised(self) -> float:
        """The share of these clients' samples that were rebuilt with 20 dB or more."""
        return float((self.psnr >= RECOGNISED).sum()) / max(self.of, 1)


def judge_rebuilt(
    guesses: Tensor,
    originals: Tensor,
    peak: float,
    clients: Sequence[int] = (0,),
    of: int | None = None,
    labels: float | None = None,
) -> Rebuilt:
    """Guesses beside the originals that they fit best.

    Args:
        guesses: What an attack made, in any order.
        originals: The samples that were sought.
        peak: The range of values.
        clients: Whose samples they are.
        of: How many training samples these clients have; as many as originals by default.
        labels: The share of labels that was found.
    """
    guesses = guesses.to(originals.dtype).reshape(len(guesses), *originals.shape[1:])
    places = best_assignment(guesses, originals)
    there = places >= 0
    rebuilt = torch.full_like(originals, float("nan"))
    rebuilt[there] = guesses[places[there]]
    alike = torch.full((len(originals),), float("nan"), dtype=torch.float64)
    if originals.dim() == 4 and bool(there.any()):
        alike[there] = ssim(rebuilt[there], originals[there], peak)
    number = len(originals) if of is None else of
    return Rebuilt(tuple(clients), originals, rebuilt, psnr(rebuilt, originals, peak), alike, number, labels)


def value_range(task: Task) -> tuple[float, float]:
    """The lowest and the highest value of prepared inputs: what everybody knows of pixels."""
    inputs = inputs_of(task, task.federation.train.order[:LOOKED_AT])
    return float(inputs.min()), float(inputs.max())


def summary(found: Sequence[Rebuilt]) -> dict[str, float]:
    """The numbers that a run records of what was rebuilt; none if nothing was sought.

    Args:
        found: What was rebuilt of each client, or of a sum.
    """
    sought = [one for one in found if len(one.originals)]
    if not sought:
        return {}
    each, alike = torch.cat([one.psnr for one in sought]), torch.cat([one.ssim for one in sought])
    labels = [one.labels for one in sought if one.labels is not None]
    samples = sum(one.of for one in sought)
    numbers = {
        "sought": float(len(each)),
        "psnr": float(each.nanmean()),
        "best_psnr": float(each.nan_to_num(nan=-torch.inf).max()),
        "ssim": float(alike.nanmean()),
        "rebuilt": sum(one.recognised * one.of for one in sought) / samples,
        "of_sum": float(sought[0].of_sum),
    }
    return numbers | ({"labels": sum(labels) / len(labels)} if labels else {})
