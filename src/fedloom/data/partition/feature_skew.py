"""Feature skew: the same task seen through different instruments.

Each client's inputs are changed in its own fixed way, strongest for the last client, as in Li et al., Federated
Learning on Non-IID Data Silos, ICDE 2022 (noise), with brightness and quarter turns beside it. The global test set
and the communal set stay as they are. The inputs are copied once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError, unknown
from fedloom.core.inputs import input_names
from fedloom.core.seeds import generator, key
from fedloom.core.settings import NonNegative, check_value
from fedloom.data.federation import Federation


def _noise(x: Tensor, level: float, client: int, seed: int) -> Tensor:
    return x + level * torch.randn(x.shape, generator=generator(seed, "feature skew", client))


def _brightness(x: Tensor, level: float, client: int, seed: int) -> Tensor:
    sign = 1 if torch.rand(1, generator=generator(seed, "feature skew", client)) < 0.5 else -1
    return x + sign * level


def _turn(x: Tensor, level: float, client: int, seed: int) -> Tensor:  # noqa: ARG001
    turns = int(torch.randint(0, 4, (1,), generator=generator(seed, "feature skew", client)))
    return torch.rot90(x, turns, (-2, -1))


SKEWS: dict[str, Callable[[Tensor, float, int, int], Tensor]] = {
    "noise": _noise,
    "brightness": _brightness,
    "turn": _turn,
}


def with_feature_skew(federation: Federation, kind: str, strength: float = 0.2, seed: int = 0) -> Federation:
    """The same federation with each client's inputs changed: ``noise``, ``brightness`` or ``turn``.

    Client k of K has the level ``strength * (k + 1) / K``, in units of the full range for uint8 images and of the
    inputs for floats. ``turn`` rotates square images by a random number of quarter turns and has no strength.
    """
    if kind not in SKEWS:
        raise unknown("feature skew", kind, SKEWS)
    check_value("strength", strength, NonNegative)
    columns = dict(federation.columns)
    for name in input_names(columns):
        columns[name] = _skew_column(
            federation, columns[name], kind, strength, seed if name == "x" else key(seed, name)
        )
    return replace(federation, columns=columns)


def _skew_column(federation: Federation, old: Tensor, kind: str, strength: float, seed: int) -> Tensor:
    """An input column with each client's entries changed."""
    whole = old.dtype == torch.uint8
    if not (whole or old.is_floating_point()):
        raise FedloomError(f"feature skew changes images and measurements; these inputs are {old.dtype}.")
    if kind == "turn" and (old.dim() != 4 or old.shape[-1] != old.shape[-2]):
        raise FedloomError(f"turn rotates square images; these inputs have shape {tuple(old.shape[1:])}.")
    new = old.clone()
    for client in range(federation.clients):
        mine = torch.cat([part[client] for part in (federation.train, federation.valid, federation.test)])
        level = strength * (client + 1) / federation.clients
        seen = old[mine].float() / 255 if whole else old[mine]
        changed = SKEWS[kind](seen, level, client, seed)
        new[mine] = (changed.clamp(0, 1) * 255).round().to(torch.uint8) if whole else changed.to(old.dtype)
    return new
