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
"""A rebuilt sample counts from this PSNR on, in dB: a tenth of the range of pixels off, or of a column's spread."""
LOOKED_AT = 1000
"""Of how many samples the range of values is taken."""


@dataclass(frozen=True)
class Rebuilt:
    """Samples beside what an attack made of them, in the same order.

    Args:
        clients: Whose samples they are: one client's, or of all clients of a sum.
        originals: The samples that were sought.
        rebuilt: The best guess for each, every guess used once; NaN where there was none.
        psnr: The PSNR of each in dB, of a row in units of its columns' spread; NaN where there was no guess.
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
    spread: Tensor | None = None,
) -> Rebuilt:
    """Guesses beside the originals that they fit best.

    Args:
        guesses: What an attack made, in any order.
        originals: The samples that were sought.
        peak: The range of values.
        clients: Whose samples they are.
        of: How many training samples these clients have; as many as originals by default.
        labels: The share of labels that was found.
        spread: What errors in each number are relative to, instead of the range of values.
    """
    guesses = guesses.to(originals.dtype).reshape(len(guesses), *originals.shape[1:])
    unit, peak = (1.0, peak) if spread is None else (spread, 1.0)
    places = best_assignment(guesses / unit, originals / unit)
    there = places >= 0
    rebuilt = torch.full_like(originals, float("nan"))
    rebuilt[there] = guesses[places[there]]
    alike = torch.full((len(originals),), float("nan"), dtype=torch.float64)
    if originals.dim() == 4 and bool(there.any()):
        alike[there] = ssim(rebuilt[there], originals[there], peak)
    number = len(originals) if of is None else of
    each = psnr(rebuilt / unit, originals / unit, peak)
    return Rebuilt(tuple(clients), originals, rebuilt, each, alike, number, labels)


def value_range(task: Task) -> tuple[float, float]:
    """The lowest and the highest value of prepared inputs: what everybody knows of pixels."""
    inputs = inputs_of(task, task.federation.train.order[:LOOKED_AT])
    return float(inputs.min()), float(inputs.max())


def column_spread(task: Task) -> Tensor | None:
    """The standard deviation of each column of a table; None where samples are no rows.

    The range of a table is that of its widest column: measured by it, a row of means would look like most rows.
    """
    rows = inputs_of(task, task.federation.train.order[:LOOKED_AT])
    if rows.dim() != 2:
        return None
    spread = rows.std(0, correction=0)
    return torch.where(spread > 0, spread, torch.ones_like(spread))


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
