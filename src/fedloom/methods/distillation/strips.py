"""Strips: a map of a stage as its means along each axis, C×(H+W) numbers instead of C×H×W.

``Phi(z) = [ (1/W) sum_w z[:, :, w] | (1/H) sum_h z[:, h, :] ]`` for a map z of C×H×W.

Psaltis, Federated, Multi-agent, Deep Reinforcement Learning (thesis, 2024), equation 7.2. Corrected: it prints 1/W in
both terms; the mean over h has H terms.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.model.stages import stage_maps
from fedloom.core.task import Task


def strips(z: Tensor) -> Tensor:
    """The strips of maps n×C×H×W: n × C·(H+W), first all means along W, then all along H.

    Args:
        z: The outputs of one stage.
    """
    if z.dim() != 4:
        raise FedloomError(
            f"strips are means along the height and the width of maps, and a stage gives {tuple(z.shape)}: name "
            "convolutions in model.stages, or use multi_loss=none."
        )
    return torch.cat([z.mean(3).flatten(1), z.mean(2).flatten(1)], dim=1)


def all_strips(maps: Sequence[Tensor]) -> Tensor:
    """The strips of all stages side by side: n × the sum of their numbers.

    Args:
        maps: The outputs of each stage.
    """
    return torch.cat([strips(z) for z in maps], dim=1)


@torch.no_grad()
def require_equal_strips(name: str, task: Task) -> None:
    """Refuse models without maps, and clients' models whose stages give different numbers of strips.

    Args:
        name: The method, for the message.
    """
    widths = []
    for own in task.by_architecture:
        maps = stage_maps(own.model, own.inputs(own.federation.communal[:1]))
        widths.append([strips(z).shape[1] for z in maps])
    if any(one != widths[0] for one in widths):
        shown = "; ".join(", ".join(map(str, one)) for one in widths)
        raise FedloomError(
            f"{name} averages strips of clients' stages, but their models give different numbers of them ({shown}): "
            "use multi_loss=none, or models with equal maps."
        )


def strip_distances(maps: Sequence[Tensor], goal: Tensor) -> list[Tensor]:
    """Each sample's Euclidean distance ``|Phi(z_l) - goal_l|``, stage by stage (equation 7.3 without its mean).

    Args:
        maps: The outputs of each stage.
        goal: The strips that they should have, of all stages, side by side.
    """
    own = [strips(z) for z in maps]
    goals = torch.split(goal, [one.shape[1] for one in own], dim=1)
    return [torch.linalg.vector_norm(a - b, dim=1) for a, b in zip(own, goals, strict=True)]
