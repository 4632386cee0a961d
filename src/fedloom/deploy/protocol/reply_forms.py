"""The form of a site's answer (names, types, shapes), known before it arrives: the server does the job once itself.

The form depends neither on the samples nor on their number, so this rehearsal uses two samples of zeros and a single
epoch. Where the server cannot rehearse (a step that needs the clients' state), the form of more than half of the
answers is the valid one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedloom.core.message import Message
from fedloom.core.relays import RELAY
from fedloom.core.task import Task
from fedloom.data.federation import Federation
from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.protocol.message_validation import ReplyForm
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.jobs import Job, Tensors, split_kept
from fedloom.training.local_trainer import LocalTrainer

log = logging.getLogger("fedloom")

STEPS_ROOM = 10
"""How many times as many steps as a rehearsal suggests are still plausible."""
REHEARSAL_SAMPLES = 2
"""Samples of a client in a rehearsal; layers that normalise over a batch need two."""


def reply_form(result: Mapping[str, Tensor]) -> ReplyForm:
    """The form of the part of a client's result that leaves the site."""
    return {name: (t.dtype, tuple(t.shape)) for name, t in split_kept(result)[0].items()}


def rehearse(runtime: ClientRuntime, job: Job, message: Message) -> Tensors | None:
    """Do a job of the first client; its result, or None if the rehearsal fails."""
    first = replace(job, ids=[0, 1]) if job.kind == "global" else replace(job, ids=job.ids[:1], places=job.places[:1])
    try:
        return runtime.do(first, message, {})
    except Exception as error:  # a user-defined method may raise anything, and it is called out of turn
        log.info("the server cannot rehearse a step of the run (%s): it accepts the form of most answers", error)
        return None


def majority_form(forms: Sequence[ReplyForm]) -> ReplyForm | None:
    """The form of more than half of the answers; None if there is none."""
    counts = Counter(tuple(sorted(form.items(), key=lambda item: item[0])) for form in forms)
    for form, number in counts.items():
        if 2 * number > len(forms):
            return dict(form)
    return None


class ReplyForms:
    """The forms of answers, each rehearsed once; and how many steps a site can have trained."""

    def __init__(self, runtime: ClientRuntime) -> None:
        self.work, self.runtime = runtime.setting.work, with_few_samples(runtime)
        self.rehearsed_steps = 0
        self.found: dict[Hashable, ReplyForm | None] = {}

    def of(self, job: Job, message: Message) -> ReplyForm | None:
        """The form of one client's answer to a message; None if it is unknown."""
        asked = 0 if job.session is None else len(job.session.ids)  # the type of what is added depends on it
        architecture = self.runtime.scoring.task.of_client(job.ids[0]).architecture
        is_end = job.kind != "update" or self.runtime.is_end(job)
        key = (job.kind, job.measure, job.turn > 0, asked, architecture, is_end, *_outline(message))
        if key not in self.found:
            result = rehearse(
                self.runtime, job, with_blank_envelopes(message) if self.runtime.hides_models else message
            )
            self.found[key] = None if result is None else reply_form(result)
            if result is not None and "steps" in result:
                self.rehearsed_steps = max(self.rehearsed_steps, int(result["steps"].max()))
        return self.found[key]

    def most_steps(self, sizes: ClientSizes) -> int:
        """More local steps than a site of these sizes trains in one request.

        A rehearsal is one batch of one epoch. Sites may train more often than its client did: a large client of a
        hybrid method trains twice.
        """
        samples, batch = sum(sizes[:3]), self.work.batch_size
        batches = 1 if batch == 0 else samples // batch + 3  # a part of a batch for each part of the data
        steps = self.work.steps if self.work.steps is not None else max(1, self.work.epochs) * batches
        return STEPS_ROOM * (self.rehearsed_steps + 1) * steps


def _outline(message: Message) -> list[Hashable]:
    """The parts of a message that can decide the form of its answer: names, types and shapes, and the value of a whole
    number (the phase of a method)."""
    parts: list[Hashable] = []
    for name, tensor in sorted(message.shared.items()):
        value = tensor.item() if tensor.numel() == 1 and not tensor.is_floating_point() else None
        parts.append((name, tensor.dtype, tuple(tensor.shape), value))
    return parts + [(name, t.dtype, tuple(t.shape[1:])) for name, t in sorted(message.each.items())]


def with_blank_envelopes(message: Message) -> Message:
    """The message with models of zeros in place of those that only a client can open."""
    if RELAY not in message.each:
        return message
    return Message(message.shared, {**message.each, RELAY: torch.zeros_like(message.each[RELAY])})


Pick = Callable[[Task, Tensor], Tensor]
"""Takes some of a list of positions."""


def first_two(_: Task, positions: Tensor) -> Tensor:
    """The first positions of a list."""
    return positions[:REHEARSAL_SAMPLES]


def with_few_samples(runtime: ClientRuntime, pick: Pick = first_two) -> ClientRuntime:
    """The same runtime with almost nothing to do: few samples, one epoch, one client after another."""
    work = runtime.setting.work
    short = replace(work, epochs=min(work.epochs, 1), steps=None if work.steps is None else min(work.steps, 1))
    return replace(
        runtime,
        training=_trainer_with_few_samples(runtime.training, pick),
        scoring=_trainer_with_few_samples(runtime.scoring, pick),
        trainers=tuple(
            (_trainer_with_few_samples(training, pick), _trainer_with_few_samples(scoring, pick))
            for training, scoring in runtime.trainers
        ),
        setting=replace(runtime.setting, work=short),
    )


def _trainer_with_few_samples(trainer: LocalTrainer, pick: Pick) -> LocalTrainer:
    task = trainer.task
    if isinstance(task.federation, Federation):
        few = task.federation.subsample(lambda positions: pick(task, positions), REHEARSAL_SAMPLES)
        task = replace(task, federation=few)
    return LocalTrainer(task, "loop")
