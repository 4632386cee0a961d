"""Which inputs a model over several input columns gets: a dict of tensors by column, or one tensor.

A model that takes a dict gets it. A plain model gets one tensor, the columns joined along axis 1 (channels, features).
One pass with one sample decides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import named_inputs
from fedloom.core.task import Task
from fedloom.data.input_plan import InputPlan
from fedloom.data.tables.column_plan import TEXT_MODEL

TAGGER = "tagger"
OF_WORDS = (TAGGER, TEXT_MODEL)
"""Models that have the option ``vocabulary``: how many words are known."""
LOOKED_AT = 256
"""How many training samples show whether the last channel marks real steps."""


def fit_inputs(task: Task) -> Task:
    """The task whose model gets several input columns as it takes them; an error if it takes neither form."""
    if "x" in task.federation.columns:
        for model in [task.model] if task.architectures is None else task.architectures.models:
            if getattr(model, "last_channel_marks_steps", False):
                _check_marks(task, type(model).__name__)
        return task
    alone = _obstacle(task)
    if alone is None:
        return task
    joined = replace(task, joined=True)
    together = _obstacle(joined)
    if together is None:
        return joined
    names = ", ".join(named_inputs(task.federation.columns))
    raise FedloomError(
        f"{type(task.model).__name__} cannot take the input columns {names}: a dict of them raises {alone}, one tensor "
        f"{together}; use model late-fusion, or give one array x."
    )


def _check_marks(task: Task, model: str) -> None:
    """Raise an error if the last channel is no mark of real steps: 1 up to the end of a sequence, and 0 behind it."""
    inputs = cast(Tensor, task.inputs(task.federation.train.order[:LOOKED_AT]))
    marks = inputs[(inputs != 0).flatten(1).any(1), -1]  # a server's placeholders are zeros
    wrong = ((marks != 0) & (marks != 1)) | (marks != marks.cummin(-1).values)
    wrong[:, 0] |= marks[:, 0] != 1
    if bool(wrong.any()):
        step = int(wrong.nonzero()[0, 1]) + 1
        raise FedloomError(
            f"{model} takes the last channel as 1 at real steps and 0 at padding, but these inputs have "
            f"{float(marks[wrong][0]):.3g} there at step {step}: give sequences of unequal length as a list of arrays "
            "(steps, channels) or as an NPZ file with lengths, or use model conv1d."
        )


@torch.no_grad()
def _obstacle(task: Task) -> str | None:
    """Why the model does not take the task's inputs; None if it does."""
    trains = task.model.training
    task.model.eval()
    try:
        task.model(task.inputs(task.sample))
    except Exception as error:  # whatever a user's model raises
        return f"{type(error).__name__} ({(str(error).splitlines() or [''])[0][:120]})"
    finally:
        task.model.train(trains)
    return None


def with_vocabulary(model: object, options: Mapping[str, Any], plan: InputPlan | None) -> dict[str, Any]:
    """The options of a model; one of words has the number of words that the plan knows, unless they say another.

    Args:
        model: The model's name, or what makes it.
        options: The options that the user gave.
        plan: What is done to the inputs of the user's data.
    """
    words = 0 if plan is None else plan.words
    return {"vocabulary": words, **options} if model in OF_WORDS and words else dict(options)
