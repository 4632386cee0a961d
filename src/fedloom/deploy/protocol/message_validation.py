"""Validation of a site's answer: it answers this request, it has the right form, and its numbers are plausible.

A faulty or dishonest site must not stop a run or spoil its model. An answer that fails here is dropped, logged and
counted with the reason, and the round continues with the others. Reasons are short clauses for logs and metrics. An
answer may hold what ``ClientRuntime.do`` returns for one client, except client state: ``kept/`` never leaves a site.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.protocol.printable import printable_line
from fedloom.deploy.protocol.score_validation import ScoreBounds, check_scores
from fedloom.deploy.protocol.wire import REFUSED, NotFinite, RejectedMessage, SiteAnswer, is_finite
from fedloom.deploy.settings import ServerSettings
from fedloom.rounds.client_runtime import VALIDATION
from fedloom.rounds.jobs import KEPT, SILENT

ReplyForm = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]
"""Type and shape of each tensor of one client's result, by name."""

LARGEST = 1e30
"""The largest accepted number: its square still fits a double, so that no site can make a mean overflow."""
OF_A_CLIENT = ("reply/", "received/", "trained/", "metric/", VALIDATION)
"""Prefixes of tensors that have a row per client."""
MOST_STEPS = 1_000_000_000
"""Most optimiser steps in one answer."""


@dataclass(frozen=True)
class ExpectedAnswer:
    """What the server knows of an answer before it arrives.

    ``sizes`` are what the site announced, ``form`` is the form of the answer (None if unknown), ``changes`` finds the
    change of the model in a reply's tensors (None if the answer has no reply), ``scores`` is what is known of the
    task's scores, ``counts`` are the names of replies that count samples, ``most_steps`` is more than any site trains.
    """

    run: str
    ticket: str
    client: int
    round: int
    sizes: ClientSizes
    form: ReplyForm | None
    changes: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]] | None = None
    scores: ScoreBounds | None = None
    counts: tuple[str, ...] = ()
    most_steps: int = MOST_STEPS


def check_answer(
    answer: SiteAnswer, tensors: Mapping[str, Tensor], expected: ExpectedAnswer, settings: ServerSettings
) -> None:
    """Accept an answer, or raise ``RejectedMessage`` with the reason."""
    _check_header(answer, expected)
    silent = is_silent(tensors)
    if expected.form is None:
        _check_any_form(tensors)
    else:
        check_form(tensors, without_replies(expected.form) if silent else expected.form)
    for name, tensor in tensors.items():
        _check_numbers(name, tensor, may_be_nan=_may_be_nan(name, tensors))
    for part in ("", VALIDATION):
        if f"{part}counts" in tensors:
            _check_sums(tensors, part)
    if "samples" in tensors:
        _check_samples(_whole_number(tensors, "samples"), expected.sizes.train, settings.max_samples)
    if "steps" in tensors and not 0 <= _whole_number(tensors, "steps") <= expected.most_steps:
        raise RejectedMessage(f"steps must be between 0 and {expected.most_steps:,}")
    if expected.scores is not None:
        check_scores(tensors, expected.sizes, expected.scores)
    _check_reply_counts(tensors, expected)
    if "bytes" in tensors:
        sent = sum(tensor.nbytes for name, tensor in tensors.items() if name.startswith("reply/") or name == SILENT)
        if not 0 <= _whole_number(tensors, "bytes") <= 2 * sent:  # a sparse reply costs a number and its place
            raise RejectedMessage(f"bytes must be between 0 and {2 * sent:,}, twice the size of the reply")
    if expected.changes is not None and not silent:
        _check_changes(tensors, expected.changes, settings.max_norm)


def is_silent(tensors: Mapping[str, Tensor]) -> bool:
    """Whether an answer is only the flag of a client that sends nothing."""
    if SILENT not in tensors:
        return False
    flag = _whole_number(tensors, SILENT)
    if flag not in (0, 1):
        raise RejectedMessage(f"{SILENT} must be 0 or 1")
    return flag == 1


def without_replies(form: ReplyForm) -> ReplyForm:
    """The form of an answer of a client that sends nothing."""
    return {name: one for name, one in form.items() if not name.startswith("reply/")}


def _check_header(answer: SiteAnswer, expected: ExpectedAnswer) -> None:
    if answer.run != expected.run:
        raise RejectedMessage("it answers another run")
    if answer.ticket != expected.ticket:
        raise RejectedMessage("it answers another request (of an old round, or replayed)")
    if answer.round != expected.round:
        raise RejectedMessage("it answers another round")
    if answer.client != expected.client:
        raise RejectedMessage("it answers for another client")
    if answer.error:
        said = printable_line(answer.error, 300)
        raise RejectedMessage(said if said.startswith(REFUSED) else f"the site reports an error: {said}")


def check_form(tensors: Mapping[str, Tensor], form: ReplyForm) -> None:
    """Check that there are exactly the tensors of a form, with its types and shapes."""
    for name in form:
        if name not in tensors:
            raise RejectedMessage(f"{name} is missing")
    for name in tensors:
        if name not in form:
            raise RejectedMessage(f"{printable_line(name, 60)} is not part of the expected reply")
    for name, (dtype, _) in form.items():
        if tensors[name].dtype != dtype:
            raise RejectedMessage(f"{name} is {_dtype_name(tensors[name].dtype)} instead of {_dtype_name(dtype)}")
    for name, (_, shape) in form.items():
        if tuple(tensors[name].shape) != shape:
            raise RejectedMessage(f"{name} has the shape {list(tensors[name].shape)} instead of {list(shape)}")


def _check_any_form(tensors: Mapping[str, Tensor]) -> None:
    """Check what holds for every method: client state stays at the site, and a reply belongs to one client."""
    for name, tensor in tensors.items():
        if name.startswith(KEPT):
            raise RejectedMessage(f"{printable_line(name, 60)} is not part of the expected reply")
        if (name.startswith(OF_A_CLIENT) or name in ("steps", "samples", "bytes")) and tuple(tensor.shape[:1]) != (1,):
            raise RejectedMessage(f"{printable_line(name, 60)} must have one row, for one client")


def _may_be_nan(name: str, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a tensor may have NaN: a mean over test samples is NaN at a site without any, and a metric where it is
    undefined. Sums never are, nor is the mean that a selection asks for, which comes with ``samples``."""
    if name in ("loss", "score"):
        return "counts" not in tensors and "samples" not in tensors
    return name.startswith(("received/", "trained/", "global/")) or name == "recall"


def _check_numbers(name: str, tensor: Tensor, may_be_nan: bool) -> None:
    """Check that numbers are finite and not too large."""
    if not tensor.is_floating_point():
        return
    if may_be_nan:
        tensor = tensor[~tensor.isnan()]
    if not is_finite(tensor):
        raise NotFinite(f"{printable_line(name, 60)} has numbers that are not finite")
    if tensor.numel() and float(tensor.abs().max()) > LARGEST:
        raise RejectedMessage(f"{printable_line(name, 60)} has numbers larger than {LARGEST:.0e}")


def _check_sums(tensors: Mapping[str, Tensor], part: str) -> None:
    """Check sums over test or validation samples: whole counts, and sums of 0 where the count is 0."""
    counts = tensors[f"{part}counts"].double()
    if bool((counts < 0).any()) or bool((counts != counts.round()).any()):
        raise RejectedMessage(f"{part}counts must be whole numbers of at least 0")
    for name in (f"{part}loss", f"{part}score"):
        sums = tensors.get(name)
        if sums is not None and (sums.shape != counts.shape or bool((sums[counts == 0] != 0).any())):
            raise RejectedMessage(f"{name} has a sum where {part}counts is 0")


def _check_samples(said: int, announced: int, most: int) -> None:
    if not 1 <= said <= most:
        raise RejectedMessage(f"samples is {said:,}; it must be between 1 and {most:,}")
    if said != announced:
        raise RejectedMessage(f"samples is {said:,}, but the site announced {announced:,}")


def _check_reply_counts(tensors: Mapping[str, Tensor], expected: ExpectedAnswer) -> None:
    """Check the replies that count samples: a site has no more than it announced."""
    sizes = expected.sizes
    most = max(sizes.points, sizes.train + sizes.valid + sizes.test)
    for name in (f"reply/{name}" for name in expected.counts if f"reply/{name}" in tensors):
        if bool((tensors[name] < 0).any()) or float(tensors[name].double().sum()) > most:
            raise RejectedMessage(f"{name} counts more samples than the {most:,} that the site announced")


def _check_changes(
    tensors: Mapping[str, Tensor],
    changes: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]],
    most: float | None,
) -> None:
    """Check that a reply can be decoded, and how far the site moved what it replied with."""
    reply = {name.removeprefix("reply/"): tensor for name, tensor in tensors.items() if name.startswith("reply/")}
    try:
        found = changes(reply)
    except Exception as error:  # of tensors that no client encodes, in a user's decoder too
        raise RejectedMessage(f"its reply cannot be decoded ({printable_line(str(error), 100)})") from None
    for name, change in found.items():
        distance = float(change.double().norm())
        if not math.isfinite(distance):
            raise NotFinite(f"reply/{name} moved by a number that is not finite")
        if most is not None and not distance <= most:
            raise RejectedMessage(f"reply/{name} moved by {distance:.3g}; at most {most:g} is allowed (max_norm)")


def _whole_number(tensors: Mapping[str, Tensor], name: str) -> int:
    tensor = tensors[name]
    if tensor.numel() != 1 or tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise RejectedMessage(f"{name} must be one whole number")
    return int(tensor)


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
