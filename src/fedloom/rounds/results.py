"""The results of jobs: of those who answered, joined in client order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from fedloom.rounds.jobs import Job, Tensors


def answered_jobs(jobs: list[Job], results: Sequence[Tensors | None]) -> tuple[list[Job], list[Tensors], list[int]]:
    """The completed jobs, their results, and the places in the wave of the clients that answered.

    The places of the returned jobs count only those clients.
    """
    pairs = [(job, result) for job, result in zip(jobs, results, strict=True) if result is not None]
    places = sorted(place for job, _ in pairs for place in job.places)
    if len(pairs) == len(jobs):
        return jobs, [result for _, result in pairs], places
    rank = {place: number for number, place in enumerate(places)}
    moved = [replace(job, places=[rank[place] for place in job.places]) for job, _ in pairs]
    return moved, [result for _, result in pairs], places


def merge(jobs: list[Job], results: list[Tensors]) -> Tensors:
    """The results of all jobs as one, in the order of the clients' places."""
    count, merged = sum(len(job.places) for job in jobs), {}
    for name, first in results[0].items() if results else ():
        merged[name] = first.new_empty((count, *first.shape[1:]))
        for job, result in zip(jobs, results, strict=True):
            merged[name].index_copy_(0, torch.tensor(job.places), result[name])
    return merged


def with_prefix(tensors: Tensors, prefix: str) -> Tensors:
    """The tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def blocks(ids: list[int], size: int) -> Iterator[list[int]]:
    """Ids in blocks."""
    yield from (ids[start : start + size] for start in range(0, len(ids), size))
