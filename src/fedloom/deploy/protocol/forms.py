"""What a site's answer looks like, known before it comes: the server does the job once itself, on samples of zeros.

The form of an answer (names, types, shapes) does not depend on what the samples are, nor on how many; so a rehearsal
takes two of them and a single epoch. Where the server cannot rehearse (a step that needs what only clients kept), the
form that more than half of the answers have is the right one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from fedloom.core.message import Message
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.deploy.protocol.validation import Form
from fedloom.rounds.jobs import ClientRuntime, Job
from fedloom.training.local_trainer import LocalTrainer

log = logging.getLogger("fedloom")

REHEARSED_SAMPLES = 2
"""Samples of a client in a rehearsal: layers that normalise over a batch need two."""


def form_of(result: Mapping[str, Tensor]) -> Form:
    """The form of one client's result, as far as it leaves the site."""
    return {name: (t.dtype, tuple(t.shape)) for name, t in result.items() if not name.startswith("kept/")}


def rehearsed(runtime: ClientRuntime, job: Job, message: Message) -> Form | None:
    """What the first client's answer to a message looks like; None where a rehearsal fails."""
    first = replace(job, ids=[0, 1]) if job.kind == "global" else replace(job, ids=job.ids[:1], places=job.places[:1])
    try:
        return form_of(runtime.do(first, message, {}))
    except Exception as error:  # a method may be anybody's, and it is asked out of turn
        log.info("the server cannot rehearse a step of the run (%s): the form of most answers counts", error)
        return None


def agreed(forms: Sequence[Form]) -> Form | None:
    """The form that more than half of the answers have."""
    told = Counter(tuple(sorted(form.items(), key=lambda item: item[0])) for form in forms)
    for form, number in told.items():
        if 2 * number > len(forms):
            return dict(form)
    return None


class Forms:
    """Rehearsals, each made once."""

    def __init__(self, runtime: ClientRuntime) -> None:
        self.runtime = on_few_samples(runtime)
        self.found: dict[Hashable, Form | None] = {}

    def of(self, job: Job, message: Message) -> Form | None:
        """What one client's answer to a message looks like; None where that is not known."""
        key = (job.kind, job.measure, job.turn > 0, *_outline(message))
        if key not in self.found:
            self.found[key] = rehearsed(self.runtime, job, message)
        return self.found[key]


def _outline(message: Message) -> list[Hashable]:
    """What of a message can decide the form of its answer: names, types and shapes, and a whole number by its value
    (the phase that a method is in)."""
    parts: list[Hashable] = []
    for name, tensor in sorted(message.shared.items()):
        says = tensor.item() if tensor.numel() == 1 and not tensor.is_floating_point() else None
        parts.append((name, tensor.dtype, tuple(tensor.shape), says))
    return parts + [(name, t.dtype, tuple(t.shape[1:])) for name, t in sorted(message.each.items())]


Pick = Callable[[Task, Tensor], Tensor]
"""Which of some positions to take."""


def first_two(_: Task, positions: Tensor) -> Tensor:
    """The first positions of a list."""
    return positions[:REHEARSED_SAMPLES]


def on_few_samples(runtime: ClientRuntime, pick: Pick = first_two) -> ClientRuntime:
    """The same shop with almost nothing to do: few samples, one epoch, one client after another."""
    work = runtime.setting.work
    short = replace(work, epochs=min(work.epochs, 1), steps=None if work.steps is None else min(work.steps, 1))
    return replace(
        runtime,
        training=_on_few_samples(runtime.training, pick),
        scoring=_on_few_samples(runtime.scoring, pick),
        setting=replace(runtime.setting, work=short),
    )


def _on_few_samples(trainer: LocalTrainer, pick: Pick) -> LocalTrainer:
    task = trainer.task
    if isinstance(task.federation, Federation) and not hasattr(task.federation, "graphs"):  # a graph is one piece
        task = replace(task, federation=_few(task, task.federation, pick))
    return LocalTrainer(task, "loop")


def _few(task: Task, federation: Federation, pick: Pick) -> Federation:
    def few(lists: Ragged) -> Ragged:
        return Ragged.of([pick(task, lists[client]) for client in range(len(lists))])

    return replace(
        federation,
        train=few(federation.train),
        valid=few(federation.valid),
        test=few(federation.test),
        global_test=first_two(task, federation.global_test),
        later=tuple((since, _few(task, after, pick)) for since, after in federation.later),
        counted=federation.points,
    )
