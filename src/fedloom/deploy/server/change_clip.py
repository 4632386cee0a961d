"""Clipping of changes: how far a site may pull the model of all, and how far against the others.

This holds for every tensor of more than one number: for weights by their change; for control variates, prototypes and
the like as they are. A site whose change is larger than the others' may be honest, and so may one that points another
way: data differ. One that does both at once undoes the others' work. With d_k the change of site k and m_k the weighted
mean of the others' changes (each of the usual size u at most), a site moves

    a_k = -<d_k, m_k> / |m_k|    against the others.

If ``a_k > against * u`` or ``|d_k| > ratio * u``, its change counts with the usual size, ``u * d_k / |d_k|``. Where a
site weighs less than the mean, u is as much larger, since it counts as much less. A site with many samples trains many
steps: it may move further, though not against the others, by the square root of that (a walk).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.channel.channel import change_of
from fedloom.core.algorithm import Algorithm
from fedloom.core.message import Wave
from fedloom.rounds.jobs import Tensors
from fedloom.rounds.largest_ratio import AGAINST, CLIPPED
from fedloom.rounds.screen import Influence


@dataclass(frozen=True)
class ClippedTensor:
    """What becomes of one tensor of a wave's replies.

    Args:
        scales: What each client's change is multiplied with.
        reasons: Why, by the place of the client in the wave.
    """

    scales: Tensor
    reasons: dict[int, str]


@dataclass(frozen=True)
class ChangeClip:
    """How far a change of weights counts.

    Args:
        ratio: How many times the usual size it may have.
        against: How many times the usual size it may move against the other sites.

    What is larger counts with the usual size.
    """

    ratio: float = CLIPPED
    against: float = AGAINST

    def scales(
        self,
        algorithm: Algorithm,
        wave: Wave,
        replies: Tensors,
        name: str,
        sizes: Tensor,
        usual: Tensor,
        influence: Influence,
        fine: Tensor,
    ) -> ClippedTensor | None:
        """How much of each client's change counts; None if all of it does.

        Args:
            wave: The wave that was answered, by three clients or more.
            replies: What its clients replied.
            sizes: The norm of each client's change.
            influence: How much each client has to influence.
            fine: Which clients were not refused.
        """
        if not replies[name].is_floating_point() or replies[name][0].numel() == 1:
            return None
        most = usual * light_room(influence)
        if bool((sizes <= min(self.ratio, self.against) * most)[fine].all()):
            return None
        changes = change_of(algorithm, name, wave.message, replies).flatten(1)
        against = opposition(changes, sizes, torch.where(fine, influence.weights.double(), 0.0), usual)
        large, opposed = sizes > self.ratio * usual * room(influence), against > self.against * most
        scales = torch.where((large | opposed) & fine, most / sizes, 1.0)
        reasons = {}
        for place in (scales < 1).nonzero().flatten().tolist():
            how, limit = f"moved by {float(sizes[place]):.3g}", f"{self.ratio:g} times (clip_ratio)"
            if opposed[place]:
                how = f"moved by {float(against[place]):.3g} against the other sites"
                limit = f"{self.against:g} times (clip_against)"
            reasons[place] = (
                f"reply/{name} {how}, {limit} the usual {float(most[place]):.3g} is allowed; it counts with that size"
            )
        return ClippedTensor(scales, reasons) if reasons else None


def light_room(influence: Influence) -> Tensor:
    """How many times as far as others each client may move, since it weighs less than the mean."""
    return (1 / (len(influence.weights) * influence.weights.double().clamp(min=1e-12))).clamp(min=1.0)


def room(influence: Influence) -> Tensor:
    """How many times as far as others each client may move, since it weighs little or has many samples."""
    return torch.maximum(light_room(influence), (influence.samples / influence.samples.double().quantile(0.5)).sqrt())


def opposition(changes: Tensor, sizes: Tensor, weights: Tensor, usual: Tensor) -> Tensor:
    """How far each client moves against the weighted mean of the others; negative if it moves with them.

    Args:
        changes: A change per client.
        sizes: The norm of each.
        usual: The size up to which each counts in the mean.
    """
    scaled = weights * (usual / sizes).nan_to_num(nan=0.0, posinf=1.0).clamp(max=1.0)
    total = scaled.to(changes.dtype) @ changes
    along = (changes @ total).double()  # with itself in the mean
    others = along - scaled * sizes**2
    mean = (total.double().square().sum() - 2 * scaled * along + (scaled * sizes) ** 2).clamp(min=0.0).sqrt()
    return torch.maximum(-others / mean.clamp(min=1e-300), -sizes).minimum(sizes)
