"""Screens: which replies of a wave do not count because their numbers cannot be right.

How large a reply may be is decided by a ``Screen``: ``Divergence`` in a simulation, tighter bounds in a deployment,
where a reply may also be clipped: it counts, with a smaller change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from fedloom.channel.channel import base_of
from fedloom.core.algorithm import Algorithm
from fedloom.core.declarations import Declaration, Update, declaration_of, start_of
from fedloom.core.message import Wave
from fedloom.rounds.jobs import Tensors
from fedloom.rounds.largest_ratio import FACTOR
from fedloom.rounds.reply_norms import change_norms, median_of_others


@dataclass(frozen=True)
class Influence:
    """How much each client of a wave counts in a mean of their replies.

    Args:
        samples: Its training samples.
        weights: Its weight; they sum to one.
    """

    samples: Tensor
    weights: Tensor

    def about(self, declared: Declaration) -> Influence:
        """The same for one tensor: where the server needs each client's value, all clients count alike.

        Args:
            declared: What the tensor is.
        """
        return replace(self, weights=torch.full_like(self.weights, 1 / len(self.weights))) if declared.single else self


@dataclass(frozen=True)
class Verdict:
    """What a screen finds.

    Args:
        refused: Why a reply does not count, by its place in the wave.
        clipped: Why a reply counts with a smaller change, by its place.
        scales: By the names of tensors, what each client's change is multiplied with; 1 for most.
        norms: The usual size of each of the replies' tensors, to be remembered.
    """

    refused: Mapping[int, str] = field(default_factory=dict)
    clipped: Mapping[int, str] = field(default_factory=dict)
    scales: Mapping[str, Tensor] = field(default_factory=dict)
    norms: Mapping[str, float] = field(default_factory=dict)


class Screen(Protocol):
    """Judges replies that are finite."""

    def judge(
        self, algorithm: Algorithm, wave: Wave, replies: Tensors, influence: Influence, before: Mapping[str, Tensor]
    ) -> Verdict:
        """Find the replies of a wave that do not count, or not as they are.

        Args:
            algorithm: The method.
            wave: The wave that was answered, with the clients that answered it.
            replies: What they replied, decoded.
            influence: How much each of them counts in a mean.
            before: The sizes that were remembered of earlier rounds, by the names of tensors.
        """


@dataclass(frozen=True)
class Divergence:
    """The screen of a simulation, in which nobody lies: it refuses models that exploded.

    A change has exploded if it is both ``factor`` times as large as the usual change of the others and ``factor`` times
    as large as the model that the client received. Most rounds cost one norm per client.
    """

    factor: float = FACTOR

    def judge(
        self, algorithm: Algorithm, wave: Wave, replies: Tensors, influence: Influence, before: Mapping[str, Tensor]
    ) -> Verdict:
        """Find the replies of a wave that exploded."""
        refused: dict[int, str] = {}
        for name, rows in replies.items():
            base = received_weights(algorithm, name, wave, replies)
            if base is None or not rows.is_floating_point():
                continue
            model = torch.linalg.vector_norm(base.reshape(-1, rows[0].numel()), dim=1).double()
            sizes = torch.linalg.vector_norm(rows.flatten(1), dim=1).double()
            if bool((sizes <= (self.factor - 1) * model).all()) or not bool((model > 0).all()):
                continue
            moved = change_norms(algorithm, wave.message, replies, name)
            usual = torch.maximum(median_of_others(moved), model)
            for place in (moved > self.factor * usual).nonzero().flatten().tolist():
                refused[place] = (
                    f"reply/{name} moved by {float(moved[place]):.3g}; the model that it got has the size "
                    f"{float(model.expand(len(moved))[place]):.3g}"
                )
        return Verdict(refused)


def clip_changes(algorithm: Algorithm, wave: Wave, replies: Tensors, scales: Mapping[str, Tensor]) -> Tensors:
    """Replies in which some changes are smaller; all others keep their bytes.

    Args:
        algorithm: The method.
        wave: The wave that was answered.
        replies: What its clients replied, decoded.
        scales: What each client's change is multiplied with, by the names of tensors.
    """
    found = dict(replies)
    for name, scale in scales.items():
        rows, base = replies[name].clone(), base_of(algorithm, name, wave.message, replies)
        for place in (scale < 1).nonzero().flatten().tolist():
            start = 0.0 if base is None else base[place] if base.shape == rows.shape else base
            rows[place] = start + scale[place].to(rows.dtype) * (rows[place] - start)
        found[name] = rows
    return found


def received_weights(algorithm: Algorithm, name: str, wave: Wave, replies: Tensors) -> Tensor | None:
    """The weights that clients started from when they made a reply's tensor; None if it does not consist of weights.

    Args:
        algorithm: The method.
        name: The name of the tensor.
        wave: The wave that was answered.
        replies: What its clients replied, decoded.
    """
    kind = declaration_of(algorithm, name, wave.message)
    base = wave.message.get(kind.like) if isinstance(kind, Update) else start_of(algorithm, name, wave.message, replies)
    shape = replies[name].shape
    return base if base is not None and base.is_floating_point() and base.shape in (shape, shape[1:]) else None
