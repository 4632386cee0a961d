"""Losses by name (``task.loss`` in a config), and the usual loss of each kind of target."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.core.objective import CrossEntropy, Loss, Objective, Standardised
from fedloom.core.targets import TARGET_KINDS, TargetKind, target_kind
from fedloom.core.task import FederationView
from fedloom.losses.bce import BCE
from fedloom.losses.focal import Focal
from fedloom.losses.huber import Huber
from fedloom.losses.mse import MSE
from fedloom.losses.own_function import LossFunction, OwnLoss
from fedloom.registry.named_part import PartKind, is_named, part_values
from fedloom.registry.user_classes import resolve_user_file, user_callable, user_class_name

LOSSES: dict[str, type[Loss]] = {
    "cross_entropy": CrossEntropy,
    "focal": Focal,
    "mse": MSE,
    "huber": Huber,
    "bce": BCE,
}

LOSS = PartKind("task.loss", LOSSES, Loss, "loss")
USUAL: dict[TargetKind, type[Loss]] = {"classes": CrossEntropy, "tokens": CrossEntropy, "number": Huber, "labels": BCE}

LossSpec = Loss | type[Loss] | LossFunction | str | Mapping[str, Any] | None
"""A loss, or what names it: ``"huber"``, ``{"name": "focal", "gamma": 3}``, ``"my_file.py:my_loss"``, or a function."""


def read_loss(spec: LossSpec) -> Loss | LossFunction | None:
    """The loss, or the user's function, that a config or a call names; None where it names none."""
    if spec is None or (callable(spec) and not isinstance(spec, type)):
        return spec
    section = {"name": spec} if isinstance(spec, str) else spec
    name = section.get("name") if isinstance(section, Mapping) else None
    if isinstance(name, str) and ":" in name:
        found = user_callable(name, "loss")
        if not isinstance(found, type):
            settings = [key for key in section if key != "name"] if isinstance(section, Mapping) else []
            if settings:
                raise FedloomError(f"loss '{name}' is a function, which has no setting {settings[0]}: leave it out.")
            function: LossFunction = found
            return function
    loss: Loss = LOSS.make(spec)
    return loss


def complete_loss(spec: LossSpec) -> Loss | LossFunction | dict[str, Any] | None:
    """The section that makes the loss again, with every setting; a loss that no config can name stays itself."""
    loss = read_loss(spec)
    if loss is None:
        return None
    if isinstance(loss, Loss):
        return part_values(loss, LOSSES) if is_named(type(loss), LOSSES) else loss
    if isinstance(spec, str | Mapping):
        return {"name": resolve_user_file(spec if isinstance(spec, str) else str(spec["name"]))}
    module, name = getattr(loss, "__module__", "__main__"), getattr(loss, "__qualname__", "")
    found = module != "__main__" and getattr(sys.modules.get(module), name, None) is loss
    return {"name": user_class_name(loss)} if found else loss


def make_objective(spec: LossSpec, federation: FederationView, units: tuple[float, float] | None = None) -> Objective:
    """The objective of a task: the loss that is named, or the usual one of its targets.

    Args:
        spec: The loss, or what names it.
        federation: The data; a loss that they cannot have is refused.
        units: Mean and standard deviation of the training targets, where these are numbers.
    """
    kind, loss = target_kind(federation.columns["y"]), read_loss(spec)
    usual = USUAL[kind]()
    if loss is None:
        loss = usual
    elif not isinstance(loss, Loss):
        loss = OwnLoss(loss, usual)
    elif loss.kinds and kind not in loss.kinds:
        name = next((name for name, known in LOSSES.items() if known is type(loss)), type(loss).__name__)
        fitting = [name for name, known in LOSSES.items() if kind in known.kinds]
        raise FedloomError(
            f"loss {name} is not for {TARGET_KINDS[kind]}, which these targets are: use {', '.join(fitting)}, or a "
            "function of your own."
        )
    fitted = loss.fit(federation)
    return fitted if units is None else Standardised(fitted, *units)
