"""What a target is: a class, a number, several labels, or a class per token.

The column of targets shows it. A whole number per sample is a class and a float is a number, or several are; several
bytes per sample are labels (1: the sample has it), and several whole numbers are the classes of a sequence's tokens.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

TargetKind = Literal["classes", "number", "labels", "tokens"]
TARGET_KINDS: dict[TargetKind, str] = {
    "classes": "one class per sample",
    "number": "a number per sample, or several (regression)",
    "labels": "any number of labels per sample",
    "tokens": "a class per token of a sequence",
}

IGNORED = -100
"""A target that does not count: padding of a sequence, or the class of a sample without a label."""


def target_kind(y: Tensor) -> TargetKind:
    """The kind of a column of targets."""
    if y.is_floating_point():
        return "number"
    if y.dim() == 1:
        return "classes"
    return "labels" if y.dtype == torch.uint8 else "tokens"


Units = tuple[float, float] | tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of training targets that are numbers; where a sample has several, of each of these."""


def label_mask(targets: Tensor) -> Tensor:
    """1 for each target that counts, and 0 for each that is ``IGNORED``."""
    return (targets != IGNORED).float()
