"""Bounds on replies relative to each other: what one site sends must be of the size that sites send.

A lie of any size below the absolute limits would spoil the model of all. So every tensor of every reply, declared or
not, is compared with the usual one: the median of the others in the round, by sites or by samples, or the median of all
rounds before, whichever is largest; the rounds before still know what is usual where a round has one site or two. What
is more than ``factor`` times as large is refused. What is smaller and still counts too much is clipped
(``change_clip.py``).

What two sites alone can tell: if one sends much more than the other, and no round came before, nobody can know which of
them is wrong. The larger one is refused only if it would also outweigh the model that it got.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.declarations import Model, Scalar, Statistic, Update, declaration_of
from fedloom.core.message import Wave
from fedloom.deploy.server.change_clip import ChangeClip, room
from fedloom.rounds.jobs import Tensors
from fedloom.rounds.reply_norms import change_norms, median_of_others, weighted_median_of_others
from fedloom.rounds.screen import Influence, Verdict, received_weights

FEWEST = 3
"""Only an exchange with this many replies says what is usual: one of two could shift their median round by round."""


@dataclass(frozen=True)
class RelativeBounds:
    """The screen of a deployment.

    Args:
        factor: How many times as large as usual a tensor of a reply may be.
        clip: How far a change of weights counts that is not refused.
    """

    factor: float
    clip: ChangeClip = field(default_factory=ChangeClip)

    def judge(
        self, algorithm: Algorithm, wave: Wave, replies: Tensors, influence: Influence, before: Mapping[str, Tensor]
    ) -> Verdict:
        """Find the replies of a wave that are much larger than usual, and what was usual in it."""
        refused: dict[int, str] = {}
        sizes: dict[str, Tensor] = {}
        usual: dict[str, Tensor] = {}
        heard: dict[str, Influence] = {}
        for name in replies:
            declared = declaration_of(algorithm, name, wave.message)
            if isinstance(declared, Statistic | Scalar) and declared.counts:
                continue  # samples may be very unevenly spread: they are compared with what the site announced
            own = sizes[name] = change_norms(algorithm, wave.message, replies, name)
            heard[name] = influence.about(declared)
            usual[name] = usual_sizes(algorithm, wave, replies, name, own, heard[name], before.get(name))
            most = usual[name] * (room(heard[name]) if len(own) >= FEWEST else 1.0)
            verb = "moved by" if isinstance(declared, Model | Update) else "has the size"
            for place in (own > self.factor * most).nonzero().flatten().tolist():
                ratio = float(own[place] / most[place])
                refused.setdefault(
                    place,
                    f"reply/{name} {verb} {float(own[place]):.3g}, {ratio:.3g} times the usual "
                    f"{float(most[place]):.3g}; at most {self.factor:g} times is allowed (max_ratio)",
                )
        fine = torch.tensor([place not in refused for place in range(len(wave.ids))], dtype=torch.bool)
        if int(fine.sum()) < FEWEST:
            return Verdict(refused)
        clipped: dict[int, str] = {}
        scales: dict[str, Tensor] = {}
        for name, own in sizes.items():
            found = self.clip.scales(algorithm, wave, replies, name, own, usual[name], heard[name], fine)
            if found is not None:
                scales[name] = found.scales
                clipped |= {place: why for place, why in found.reasons.items() if place not in clipped}
        norms = {name: median for name, own in sizes.items() if (median := _median(own[fine])) > 0}
        return Verdict(refused, clipped, scales, norms)


def usual_sizes(
    algorithm: Algorithm,
    wave: Wave,
    replies: Tensors,
    name: str,
    sizes: Tensor,
    influence: Influence,
    before: Tensor | None,
) -> Tensor:
    """What each client's tensor is compared with; infinity where there is nothing to compare it with.

    Args:
        replies: What its clients replied.
        sizes: The norm of each client's tensor.
        influence: How much each client has to influence.
        before: The usual norms of earlier exchanges; None if there are none.
    """
    numbers = replies[name][0].numel() if len(replies[name]) else 0
    usual = torch.maximum(median_of_others(sizes), weighted_median_of_others(sizes, influence.weights))
    usual = usual.clamp(min=0.0 if before is None else _median(before))
    if numbers == 1:  # a single number has no scale of its own: a loss may be 0 at most sites
        usual = usual.clamp(min=1.0)
    if before is None and len(sizes) <= 2:
        model = received_weights(algorithm, name, wave, replies)
        if model is not None:
            usual = usual.clamp(min=float(torch.linalg.vector_norm(model.double())))
    nothing = math.inf if before is None and len(sizes) <= 2 else math.sqrt(numbers)
    return usual.masked_fill(usual == 0, nothing)


def _median(values: Tensor) -> float:
    """The median of the positive values; 0 if there is none."""
    positive = values[(values > 0) & values.isfinite()]
    return float(positive.quantile(0.5)) if len(positive) else 0.0
