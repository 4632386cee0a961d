"""What a malicious server makes of the models that it sends: whatever message they are in, and in whichever part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from fedloom.attacks.seen_updates import received_models
from fedloom.core.declarations import Model
from fedloom.core.message import Message, Wave
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task


def with_changed_models(wave: Wave, context: ServerContext, change: Callable[[Task, Tensor], Tensor]) -> Message:
    """The message of a wave with every model that its clients train changed.

    Args:
        wave: What would be sent, and to whom.
        context: What the server has in this round.
        change: Changes the row of a task's whole model; of what is not sent it gets the initial model.
    """
    if not wave.ids:
        return wave.message
    task, message = context.task.of_client(wave.ids[0]), wave.message
    for name in received_models(context.sends, context.receives):
        kind, sent = context.receives[name], message.get(name)
        if sent is None or not isinstance(kind, Model):
            continue
        columns = None if kind.columns is None else kind.columns(task)
        rows = sent[None] if sent.dim() == 1 else sent
        changed = torch.stack([_with_change(task, row, columns, change) for row in rows]).view_as(sent)
        if name in message.each:
            message = replace(message, each={**message.each, name: changed})
        else:
            message = replace(message, shared={**message.shared, name: changed})
    return message


def _with_change(task: Task, row: Tensor, columns: Tensor | None, change: Callable[[Task, Tensor], Tensor]) -> Tensor:
    if columns is None:
        return change(task, row)
    whole = task.initial_row()
    whole[columns] = row
    return change(task, whole)[columns]
