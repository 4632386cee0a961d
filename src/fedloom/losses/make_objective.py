"""The objective of a task: the loss that it names (``task.loss`` in a config), or the usual one of its targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.core.objective import Loss, Objective, Standardised
from fedloom.core.targets import TARGET_KINDS, TargetKind, Units, target_kind
from fedloom.core.task import FederationView
from fedloom.losses.own_function import LossFunction, OwnLoss
from fedloom.registry.kinds import LOSSES
from fedloom.registry.registry import is_importable
from fedloom.registry.user_classes import resolve_user_file, user_callable, user_class_name

USUAL: dict[TargetKind, str] = {
    "classes": "cross_entropy",
    "tokens": "cross_entropy",
    "number": "huber",
    "labels": "bce",
}

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
    loss: Loss = LOSSES.make(spec)
    return loss


def complete_loss(spec: LossSpec) -> Loss | LossFunction | dict[str, Any] | None:
    """The section that makes the loss again, with every setting; a loss that no config can name stays itself."""
    loss = read_loss(spec)
    if loss is None:
        return None
    if isinstance(loss, Loss):
        return LOSSES.plain_one(loss) if LOSSES.can_name(type(loss)) else loss
    if isinstance(spec, str | Mapping):
        return {"name": resolve_user_file(spec if isinstance(spec, str) else str(spec["name"]))}
    return {"name": user_class_name(loss)} if is_importable(loss) else loss


def fit_to_labels(spec: LossSpec, federation: FederationView) -> LossSpec:
    """A loss that takes numbers from the training labels as the section with these numbers; any other as it is.

    Args:
        spec: The loss, or what names it.
        federation: The data.
    """
    loss = read_loss(spec)
    return complete_loss(loss.fit(federation)) if isinstance(loss, Loss) and loss.fits_to_labels else spec


def make_objective(spec: LossSpec, federation: FederationView, units: Units | None = None) -> Objective:
    """The objective of a task: the loss that is named, or the usual one of its targets.

    Args:
        spec: The loss, or what names it.
        federation: The data; a loss that they cannot have is refused.
        units: Mean and standard deviation of the training targets, where these are numbers.
    """
    kind, loss = target_kind(federation.columns["y"]), read_loss(spec)
    usual = LOSSES[USUAL[kind]]()
    if loss is None:
        loss = usual
    elif not isinstance(loss, Loss):
        loss = OwnLoss(loss, usual)
    elif loss.kinds and kind not in loss.kinds:
        name = LOSSES.name_of(type(loss)) or type(loss).__name__
        fitting = [name for name, known in LOSSES.items() if kind in known.kinds]
        raise FedloomError(
            f"loss {name} is not for {TARGET_KINDS[kind]}, which these targets are: use {', '.join(fitting)}, or a "
            "function of your own."
        )
    fitted = loss.fit(federation)
    return fitted if units is None else Standardised(fitted, *units)
