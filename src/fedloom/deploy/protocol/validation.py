"""Whether what a site sent back is taken: it answers this request, has the right form, and its numbers can be true.

A site that is out of order, or not honest, must not stop a run or spoil its model. What fails here is dropped, counted
and logged with the reason, and the others' answers go on. The reasons are short clauses for logs and metrics. What may
pass is what ``Shop.do`` gives for one client, less what clients keep: ``kept/`` never leaves a site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.deploy.protocol.wire import Answer, Refused, finite, shown
from fedloom.deploy.settings import ServerSettings

Form = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]
"""The type and the shape of each tensor of one client's result."""

LARGEST = 1e30
"""The largest number that is taken: squares of it still fit a double, so that no site can make a mean overflow."""
MOST_STEPS = 1_000_000_000
"""Optimiser steps of one answer, at most."""
MOVED = ("row", "body", "head")
"""Replies that are a model, or a part of one, as it was received and then trained."""


@dataclass(frozen=True)
class Expected:
    """What the server knows of an answer before it comes.

    ``samples`` is how many training samples the site said it has, ``form`` what the answer looks like (None where that
    is not known), ``received`` the model, or the part of it, that the site was sent.
    """

    run: str
    ticket: str
    client: int
    round: int
    samples: int
    form: Form | None
    received: Tensor | None


def check(answer: Answer, tensors: Mapping[str, Tensor], expected: Expected, settings: ServerSettings) -> None:
    """Take an answer, or raise ``Refused`` with the reason."""
    _check_header(answer, expected)
    if expected.form is None:
        _check_any_form(tensors)
    else:
        check_form(tensors, expected.form)
    for name, tensor in tensors.items():
        _check_numbers(name, tensor, may_lack=_may_lack(name, tensors))
    if "counts" in tensors:
        _check_sums(tensors)
    if "samples" in tensors:
        _check_samples(_whole(tensors, "samples"), expected.samples, settings.max_samples)
    if "steps" in tensors and not 0 <= _whole(tensors, "steps") <= MOST_STEPS:
        raise Refused("steps is a number that cannot be")
    if "bytes" in tensors:
        sent = sum(tensor.nbytes for name, tensor in tensors.items() if name.startswith("reply/"))
        if not 0 <= _whole(tensors, "bytes") <= 2 * sent:  # a sparse reply costs a number and its place
            raise Refused("bytes is a number that cannot be")
    if settings.max_norm is not None:
        _check_norm(tensors, expected.received, settings.max_norm)


def _check_header(answer: Answer, expected: Expected) -> None:
    if answer.run != expected.run:
        raise Refused("answers another run")
    if answer.ticket != expected.ticket:
        raise Refused("answers another request (an old round's, or a replay)")
    if answer.round != expected.round:
        raise Refused("answers another round")
    if answer.client != expected.client:
        raise Refused("answers for another client")
    if answer.error:
        raise Refused(f"the site could not do it: {shown(answer.error, 300)}")


def check_form(tensors: Mapping[str, Tensor], form: Form) -> None:
    """The tensors that a form names, with its types and shapes, and no others."""
    for name in form:
        if name not in tensors:
            raise Refused(f"{name} is missing")
    for name in tensors:
        if name not in form:
            raise Refused(f"{shown(name, 60)} was not asked for")
    for name, (dtype, _) in form.items():
        if tensors[name].dtype != dtype:
            raise Refused(f"{name} is {_said(tensors[name].dtype)} instead of {_said(dtype)}")
    for name, (_, shape) in form.items():
        if tuple(tensors[name].shape) != shape:
            raise Refused(f"{name} has the shape {list(tensors[name].shape)} instead of {list(shape)}")


def _check_any_form(tensors: Mapping[str, Tensor]) -> None:
    """What is true of every result, whatever the method: what is kept stays, and a reply is of one client."""
    for name, tensor in tensors.items():
        if name.startswith("kept/"):
            raise Refused(f"{shown(name, 60)} was not asked for")
        of_a_client = name.startswith(("reply/", "received/", "trained/")) or name in ("steps", "samples", "bytes")
        if of_a_client and tuple(tensor.shape[:1]) != (1,):
            raise Refused(f"{shown(name, 60)} is not of one client")


def _may_lack(name: str, tensors: Mapping[str, Tensor]) -> bool:
    """Whether numbers may be missing: a mean over test samples that a site does not have is NaN. Sums never are, nor
    is the mean that a selection asks for, which goes with ``samples``."""
    if name in ("loss", "score"):
        return "counts" not in tensors and "samples" not in tensors
    return name.startswith(("received/", "trained/")) or name == "recall"


def _check_numbers(name: str, tensor: Tensor, may_lack: bool) -> None:
    """Finite numbers of a size that can be reckoned with."""
    if not tensor.is_floating_point():
        return
    if may_lack:
        tensor = tensor[~tensor.isnan()]
    if not finite(tensor):
        raise Refused(f"{shown(name, 60)} is not finite")
    if tensor.numel() and float(tensor.abs().max()) > LARGEST:
        raise Refused(f"{shown(name, 60)} has numbers beyond {LARGEST:.0e}")


def _check_sums(tensors: Mapping[str, Tensor]) -> None:
    """Sums over test samples: a whole number of them, and of none nothing."""
    counts = tensors["counts"].double()
    if bool((counts < 0).any()) or bool((counts != counts.round()).any()):
        raise Refused("counts is a number that cannot be")
    for name in ("loss", "score"):
        sums = tensors.get(name)
        if sums is not None and (sums.shape != counts.shape or bool((sums[counts == 0] != 0).any())):
            raise Refused(f"{name} is of more samples than counts")


def _check_samples(said: int, announced: int, most: int) -> None:
    if not 1 <= said <= most:
        raise Refused(f"samples is {said:,}, and between 1 and {most:,} are allowed")
    if said != announced:
        raise Refused(f"samples is {said:,}, and the site announced {announced:,}")


def _check_norm(tensors: Mapping[str, Tensor], received: Tensor | None, most: float) -> None:
    """How far the site moved its model; a reply that is a change says so itself."""
    for name in MOVED:
        reply = tensors.get(f"reply/{name}")
        if reply is not None and received is not None and reply.numel() == received.numel():
            _check_distance(name, reply.flatten().double() - received.flatten().double(), most)
    if "reply/change" in tensors:
        _check_distance("change", tensors["reply/change"].double(), most)


def _check_distance(name: str, change: Tensor, most: float) -> None:
    distance = float(change.norm())
    if not distance <= most:
        raise Refused(f"reply/{name} moved by {distance:.3g}, and {most:g} is allowed")


def _whole(tensors: Mapping[str, Tensor], name: str) -> int:
    tensor = tensors[name]
    if tensor.numel() != 1 or tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise Refused(f"{name} is not one whole number")
    return int(tensor)


def _said(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
