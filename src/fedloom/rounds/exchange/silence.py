"""Silence: a client whose update a step of the channel withholds sends one flag and nothing else.

To the server it is a client that did not answer, but for the flag, its steps and its measurements. What it kept stays
as it was before the round, as if it had not taken part; only the step that withheld its update remembers more. If so
few clients send that the round's aggregator cannot work, the model stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.rounds.jobs import Job, Tensors

SILENT = "silent"
"""The name of the flag in a result: 1 for a client that sends nothing."""


class NothingSent(Exception):  # noqa: N818
    """Too few clients of a wave sent their update, so that the model stays as it is."""


def restore_kept(cohort: Cohort, kept: Mapping[str, Tensor], silent: Tensor, but: frozenset[str]) -> None:
    """Set back what the silent clients of a cohort kept in this round.

    Args:
        cohort: The clients.
        kept: What they kept before.
        silent: A mask of the silent ones.
        but: The names that stay.
    """
    for name in cohort.changed - but:
        now, has = cohort.state[name], f"{name}/has"
        mask = silent.view(-1, *[1] * (now.dim() - 1))
        cohort.state[name] = torch.where(mask, kept.get(name, torch.zeros_like(now)), now)
        cohort.state[has] = torch.where(silent, kept.get(has, torch.zeros(len(cohort))), cohort.state[has])


def with_flags(result: Tensors, silent: Tensor) -> Tensors:
    """A result whose silent clients send their flag only; without replies if all of them are silent.

    Args:
        result: What the clients of a cohort send.
        silent: A mask of the silent ones.
    """
    costs = torch.where(silent, 0, result["bytes"]) + 1
    left = {name: t for name, t in result.items() if not (name.startswith("reply/") and bool(silent.all()))}
    return {**left, "bytes": costs, SILENT: silent.to(torch.uint8)}


def silent_places(jobs: list[Job], results: list[Tensors]) -> list[int]:
    """The places in the wave of the clients that sent nothing but their flag."""
    pairs = [(job, result[SILENT]) for job, result in zip(jobs, results, strict=True) if SILENT in result]
    return sorted(place for job, flags in pairs for place, flag in zip(job.places, flags.tolist(), strict=True) if flag)
